"""What the evaluation of a Placement comes to."""

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
    """As `Steady 100, AddOn/resource-usage-score/cpuNodeAvailable 52`."""


@dataclass(frozen=True)
class DecisionGroup:
    """A decision group: its name may be empty, its index is its place in the list of all."""

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
    """At least one, which may be empty; none where it is misconfigured."""
    satisfied: Satisfied
    misconfigured: str
    """`plugin:message`; empty where there is nothing to mend. The last decisions are then to be kept."""
    why_not: Callable[[], Mapping[str, str]] = field(compare=False, repr=False)
    """What `refused` is made by: it takes a text for each cluster, which whoever decides has no need of."""
    again: datetime | None
    """When to evaluate again though nothing changes: a toleration or a score expires."""
    warnings: tuple[str, ...] = ()
    """Scores that have expired, for events: `AddOnPlacementScores eu/usage expired in plugin AddOn/usage/cpu`."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """The total of every cluster that could be decided, for the event ScoreUpdate."""

    @cached_property
    def decided(self) -> Mapping[str, Decision]:
        """All decisions by cluster."""
        return {each.cluster: each for group in self.groups for each in group.decisions}

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Every cluster that is not decided to why, in words; also those in no bound set."""
        return self.why_not()
