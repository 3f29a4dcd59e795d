"""Requests to targets use their port: only agent.clusters knows how to reach them."""

import ast

from hack.lab.sandbox.objects import REPOSITORY
from tests.syntax import parsed

_OWNERS = {"target", "place", "home", "us"}
_MEANS = {"client", "informer", "informers", "supervisor"}


def test_nobody_else_reaches_behind_the_port_of_a_target() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for path in sorted((REPOSITORY / "agent").rglob("*.py"))
        if "clusters" not in path.relative_to(REPOSITORY).parent.parts and "cli" not in path.parts
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and _reaches(node)
    ]
    assert found == []


def _reaches(node: ast.Attribute) -> bool:
    """Return whether the node is `target.cluster`, or another access to a cluster's client."""
    owner = node.value
    if node.attr == "cluster":
        return (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")) in _OWNERS
    return node.attr in _MEANS and isinstance(owner, ast.Attribute) and owner.attr == "cluster"
