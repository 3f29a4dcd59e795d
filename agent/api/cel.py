"""What policies (ValidatingAdmissionPolicy) have in common: their rules, and texts in CEL."""

from typing import Any


def rule(group: str, operations: list[str], resources: list[str], *, version: str = "*") -> dict[str, Any]:
    """Which requests a policy is about: operations (CREATE, UPDATE, DELETE, CONNECT) on resources of an API group."""
    return {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources}


def texts(*items: str) -> str:
    """A list of texts as CEL writes it."""
    return "[" + ", ".join(f"'{each}'" for each in items) + "]"
