"""Result of the evaluation of a Placement."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property


@dataclass(frozen=True)
class Decision:
    """One decided cluster."""

    cluster: str
    score: int
    reason: str
    """Such as `Steady 100, AddOn/resource-usage-score/cpuNodeAvailable 52`."""


@dataclass(frozen=True)
class DecisionGroup:
    """A decision group. Its name may be empty; its index is its position in the list of all groups."""

    name: str
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class Satisfied:
    """The condition PlacementSatisfied."""

    status: bool
    reason: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """Decisions and conditions of one Placement."""

    groups: tuple[DecisionGroup, ...]
    """At least one, possibly empty; no groups if the Placement is misconfigured."""
    satisfied: Satisfied
    misconfigured: str
    """`plugin:message`; empty if valid. If set, the last decisions have to be kept."""
    why_not: Callable[[], Mapping[str, str]] = field(compare=False, repr=False)
    """Computes `refused` on demand: the texts are expensive, and the controller that writes decisions needs none."""
    again: datetime | None
    """When to evaluate again without a change, because a toleration or a score expires; None if never."""
    warnings: tuple[str, ...] = ()
    """Expired scores, for events: `AddOnPlacementScores eu/usage expired in plugin AddOn/usage/cpu`."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """Total score of every feasible cluster, for the event ScoreUpdate."""

    @cached_property
    def decided(self) -> Mapping[str, Decision]:
        """All decisions by cluster."""
        return {each.cluster: each for group in self.groups for each in group.decisions}

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Why a cluster is not decided, for every other cluster, including those in no bound set."""
        return self.why_not()
