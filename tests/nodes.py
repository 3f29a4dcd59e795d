"""Virtual nodes in tests."""

from typing import Any


def takes_pods(node: dict[str, Any]) -> bool:
    """Return whether a node has capacity, and no longer the taint that Kubernetes adds to every new node."""
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    return bool(node["status"].get("allocatable")) and "node.kubernetes.io/not-ready" not in taints
