"""Targets and pods for tests of the ranking."""

from typing import Any

from agent.ranking.demand import template_of
from agent.ranking.rank import Ranking, rank
from agent.ranking.scores import Weights
from agent.ranking.snapshot import Free, PodInfo, Shape, TargetInfo, amounts
from agent.ranking.usage import Usages

WEIGHTS = Weights()


def target_info(title: str, **changes: Any) -> TargetInfo:
    """Return a ready target without information about its nodes."""
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
    return TargetInfo(**usual | changes)


def shape(
    labels: dict[str, str] | None = None, taints: tuple[dict[str, str], ...] = (), cordoned: bool = False, **room: str
) -> Shape:
    """Return nodes of one kind; resources are given as quantities, a dash in a name as an underscore."""
    found = {"cpu": "4", "memory": "8Gi", "pods": "110"} | {name.replace("_", "-"): v for name, v in room.items()}
    return Shape(labels or {}, taints, cordoned, amounts(found))


def free(cpu: str, count: int = 1, ports: tuple[str, ...] = (), **room: str) -> Free:
    """Return the free capacity of nodes."""
    return Free(amounts({"cpu": cpu, "memory": "8Gi", "pods": "110"} | room), count, frozenset(ports))


def telling(*left: Free, labels: dict[str, str] | None = None, **room: str) -> Shape:
    """Return a shape of nodes with complete information."""
    usual = shape(labels, **room)
    return Shape(usual.labels, (), False, usual.allocatable, sum(one.count for one in left), left)


def pod_info(
    proxy: dict[str, Any] | None = None,
    source: dict[str, Any] | None = None,
    attempts: dict[str, str] | None = None,
    *,
    uid: str = "",
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    **wanted: str,
) -> PodInfo:
    """Return the requests and constraints of a proxy pod with one container. `source` are constraints in the
    target, `proxy` constraints over virtual nodes, `spec` other fields."""
    tolerations = [{"key": "virtual-kubelet.io/provider", "value": "admiralty"}]
    whole = {
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": wanted}}],
        "tolerations": tolerations,
        **(proxy or {}),
        **(spec or {}),
    }
    return PodInfo(
        template=template_of(namespace, whole, source or {}),
        uid=uid,
        labels=labels or {},
        attempts=attempts or {},
    )


def usages(**counts: int) -> Usages:
    """Return this many settled pods without requests in each target, by its title."""
    found = Usages()
    for title, count in counts.items():
        for number in range(count):
            found.put(pod_info(uid=f"{title}-{number}"), f"admiralty-default-{title}")
    return found


def ranked(
    wanted: PodInfo, *targets: TargetInfo, held: Usages | None = None, weights: Weights = WEIGHTS, turn: int = 0
) -> Ranking:
    """Return the ranking for a pod."""
    return rank(wanted, targets, held or Usages(), weights, turn=turn)
