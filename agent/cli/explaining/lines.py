"""Output of `flotilla explain` for a pod: its binding, every target, and the targets tried so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


class Tried(msgspec.Struct, frozen=True):
    """A target that could not take the pod."""

    target: str
    reason: str
    at: str
    """RFC 3339 time of the last attempt."""
    count: int


class Line(msgspec.Struct, frozen=True):
    """Result for one target."""

    target: str
    verdict: str
    """Reason why the pod may not run in the target, empty if it may."""
    reason: str
    """Verdict in one word."""
    scores: Mapping[str, float]
    total: float | None
    candidate: str
    """State of the pod's candidate in the target, empty without one."""


@dataclass(frozen=True)
class Bound:
    """Binding of a pod to a target."""

    target: str
    node: str
    """Virtual node of the target."""
    delegate: str = ""
    delegate_node: str = ""
    delegate_phase: str = ""


@dataclass(frozen=True)
class Explanation:
    """Complete explanation of one proxy pod."""

    namespace: str
    name: str
    mode: str
    phase: str
    group: str = ""
    claim: str = ""
    follows: str = ""
    """Its Placement, and the decisions of that."""
    chosen: str = ""
    """Targets that annotations and settings choose for the pod, and which of them does."""
    claims: str = ""
    """Cluster claims that annotations require of its target, and which annotation does."""
    moves: str = ""
    """Progress of its move to another target: cause, phase and replacement."""
    replaces: str = ""
    """Pod that it is to replace."""
    told: str = ""
    """Message of its condition PodScheduled."""
    waits_for: str = ""
    bound: Bound | None = None
    targets: tuple[Line, ...] = ()
    """Eligible targets in the order in which they are or would be tried, then ineligible ones."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Factor of each score in the total."""
    attempts: tuple[Tried, ...] = ()
    notes: tuple[str, ...] = field(default=())
