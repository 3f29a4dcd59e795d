"""What is said of a pod: where it is bound, every target, and those that were tried."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


class Tried(msgspec.Struct, frozen=True):
    """A target that could not take the pod."""

    target: str
    reason: str
    at: str
    """RFC 3339, of the last time."""
    count: int


class Line(msgspec.Struct, frozen=True):
    """What is said of one target."""

    target: str
    verdict: str
    """Why the pod may not go there, empty when it may."""
    reason: str
    """The same in one word."""
    scores: Mapping[str, float]
    total: float | None
    candidate: str
    """What has become of the pod's candidate there, empty without one."""


@dataclass(frozen=True)
class Bound:
    """Where a pod is bound to."""

    target: str
    node: str
    """Its virtual node."""
    delegate: str = ""
    delegate_node: str = ""
    delegate_phase: str = ""


@dataclass(frozen=True)
class Explanation:
    """All there is to say of one proxy pod."""

    namespace: str
    name: str
    mode: str
    phase: str
    group: str = ""
    claim: str = ""
    follows: str = ""
    """Its Placement, and what that has decided."""
    chosen: str = ""
    """Which targets annotations and settings choose for it, and which of them says so."""
    claims: str = ""
    """Which claims of its target's cluster annotations ask for, and which of them says so."""
    moves: str = ""
    """What becomes of it where it should be elsewhere: why, how far, and its replacement."""
    replaces: str = ""
    """The pod that it is to take the place of."""
    told: str = ""
    """What its condition PodScheduled says."""
    waits_for: str = ""
    bound: Bound | None = None
    targets: tuple[Line, ...] = ()
    """In the order in which they are tried, or would be now, then those that it may not go to."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """How often each of their scores counts in the total."""
    attempts: tuple[Tried, ...] = ()
    notes: tuple[str, ...] = field(default=())
