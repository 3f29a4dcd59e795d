"""What the scheduler sees: one pod's demand, and every target at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.model.requests import Amounts, amounts, requests

__all__ = ["Amounts", "Demand", "Free", "Place", "Shape", "amounts", "requests"]


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
