"""Common parts of policies (ValidatingAdmissionPolicy): their rules, and texts in CEL."""

from typing import Any


def rule(group: str, operations: list[str], resources: list[str], *, version: str = "*") -> dict[str, Any]:
    """Return a rule of a policy: operations (CREATE, UPDATE, DELETE, CONNECT) on resources of an API group."""
    return {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources}


def texts(*items: str) -> str:
    """Return a list of texts as CEL."""
    return "[" + ", ".join(f"'{each}'" for each in items) + "]"
