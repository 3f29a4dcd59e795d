"""Roles, RoleBindings and NetworkPolicies, copied to the targets of pods if a namespace or a pod asks for it."""

from agent.dependencies.rules.rules import NetworkPolicyController, RoleBindingController, RoleController

__all__ = ["NetworkPolicyController", "RoleBindingController", "RoleController"]
