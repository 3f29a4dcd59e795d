"""Virtual nodes, as tests look at them."""

from typing import Any


def takes_pods(node: dict[str, Any]) -> bool:
    """Whether a node's size is known, and the taint has gone that Kubernetes gives every new one."""
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    return bool(node["status"].get("allocatable")) and "node.kubernetes.io/not-ready" not in taints
