"""Roles, RoleBindings and NetworkPolicies go where pods go, where a namespace or a pod asks for it."""

from agent.controllers.followrules.rules import NetworkPolicyRoom, RoleBindingRoom, RoleRoom

__all__ = ["NetworkPolicyRoom", "RoleBindingRoom", "RoleRoom"]
