"""What the scheduler sees: one pod's demand, and every target at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.model.quantity import Quantity

Amounts = Mapping[str, int]
"""Resource name to an amount in 10^-9 of its base unit."""


@dataclass(frozen=True)
class Demand:
    """What a pod asks of a target.

    `proxy` constraints hold for virtual nodes, `source` constraints for the target's own nodes.
    """

    namespace: str
    proxy: Mapping[str, Any]
    source: Mapping[str, Any]
    requests: Amounts
    attempts: Mapping[str, str] = field(default_factory=dict)
    """Virtual node to the reason why the pod could not be scheduled there."""


@dataclass(frozen=True)
class Free:
    """What nodes of one shape have left."""

    amounts: Amounts
    count: int = 1
    """How many nodes have just this left."""
    ports: frozenset[str] = frozenset()
    """Host ports in use, as `TCP/80`."""


@dataclass(frozen=True)
class Shape:
    """Nodes of a target that are alike."""

    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool
    allocatable: Amounts
    count: int = 1
    free: tuple[Free, ...] | None = None
    """None when the target does not tell."""


@dataclass(frozen=True)
class Place:
    """One target."""

    title: str
    node_name: str
    namespace: str
    """The only namespace it serves, empty for all."""
    ready: bool
    state: str
    """Why it is not ready, in words."""
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    unschedulable: bool
    allocatable: Amounts
    """Sums over its nodes; empty while unknown."""
    shapes: Sequence[Shape]
    """Empty when the target does not tell."""
    common_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels on whose value all nodes that have them agree."""


def amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Kubernetes quantities as integers."""
    return {name: Quantity.of(value).nano for name, value in (quantities or {}).items()}


def requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """What a pod requests, as kube-scheduler counts: the larger of the containers' sum and each init container on top
    of the sidecars started before it (KEP-753), plus overhead; pod-level requests (KEP-2837) replace the sums.
    """
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _of(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, wanted)
            _add(total, wanted)
            wanted = sidecars
        else:
            wanted = {name: wanted.get(name, 0) + sidecars.get(name, 0) for name in wanted.keys() | sidecars.keys()}
        for name, amount in wanted.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    total |= amounts((spec.get("resources") or {}).get("requests"))
    _add(total, amounts(spec.get("overhead")))
    total["pods"] = Quantity.of(1).nano
    return {name: amount for name, amount in total.items() if amount}


def _of(container: Mapping[str, Any]) -> dict[str, int]:
    return amounts((container.get("resources") or {}).get("requests"))


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
