"""Targets and demands to schedule with."""

from typing import Any

from agent.scheduling.snapshot import Demand, Place, Shape, amounts, requests


def place(title: str, **changes: Any) -> Place:
    """A target that is ready and tells nothing about its nodes."""
    usual: dict[str, Any] = {
        "title": title,
        "node_name": f"admiralty-default-{title}",
        "namespace": "default",
        "ready": True,
        "state": "",
        "labels": {"topology.kubernetes.io/region": title},
        "taints": ({"key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule"},),
        "unschedulable": False,
        "allocatable": {},
        "shapes": (),
        "common_labels": {},
    }
    return Place(**usual | changes)


def shape(
    labels: dict[str, str] | None = None, taints: tuple[dict[str, str], ...] = (), cordoned: bool = False, **room: str
) -> Shape:
    """Nodes of one kind; resources are given as quantities, a dash in a name as an underscore."""
    found = {"cpu": "4", "memory": "8Gi", "pods": "110"} | {name.replace("_", "-"): v for name, v in room.items()}
    return Shape(labels or {}, taints, cordoned, amounts(found))


def demand(
    proxy: dict[str, Any] | None = None,
    source: dict[str, Any] | None = None,
    attempts: dict[str, str] | None = None,
    **wanted: str,
) -> Demand:
    """What a proxy pod with one container asks for."""
    spec = {"containers": [{"name": "main", "resources": {"requests": wanted}}], **(source or {})}
    tolerations = [{"key": "virtual-kubelet.io/provider", "value": "admiralty"}]
    return Demand(
        namespace="default",
        proxy={"tolerations": tolerations, **(proxy or {})},
        source=spec,
        requests=requests(spec),
        attempts=attempts or {},
    )
