"""Common parts of policies (ValidatingAdmissionPolicy): objects, match rules, validations, and texts in CEL."""

from collections.abc import Mapping
from typing import Any

from agent.api.kinds import POLICIES, POLICY_BINDINGS

Raw = dict[str, Any]


def bound(name: str, spec: Raw, binding: Raw | None = None) -> list[Raw]:
    """Return a policy and its binding, which denies what the policy refuses.

    :param binding: further fields of the binding
    """
    bound_by = {"policyName": name, "validationActions": ["Deny"], **(binding or {})}
    return [
        {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": content}
        for kind, content in ((POLICIES, spec), (POLICY_BINDINGS, bound_by))
    ]


def about(rules: list[Raw], conditions: Mapping[str, str]) -> Raw:
    """Return the fields of a policy that select requests.

    :param rules: see `rule`
    :param conditions: CEL by name; the policy applies if all are true
    """
    matched = [{"name": name, "expression": expression} for name, expression in conditions.items()]
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        **({"matchConditions": matched} if matched else {}),
    }


def refuse(unless: str, message: str) -> Raw:
    """Return the validation that refuses a request unless an expression is true; `message` is CEL, too."""
    return {"expression": unless, "messageExpression": message, "reason": "Forbidden"}


def is_user(name: str) -> str:
    """Return CEL: the request is from this user."""
    return f"request.userInfo.username == '{name}'"


def rule(group: str, operations: list[str], resources: list[str], *, version: str = "*") -> Raw:
    """Return a rule of a policy: operations (CREATE, UPDATE, DELETE, CONNECT) on resources of an API group."""
    return {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources}


def texts(*items: str) -> str:
    """Return a list of texts as CEL."""
    return "[" + ", ".join(f"'{each}'" for each in items) + "]"
