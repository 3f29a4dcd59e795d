"""Placed: targets that a pod's Placement allows, their scores, and the reasons against the others. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, TargetInfo

NOT_PLACED = "NotPlaced"
UNDECIDED = "not among its decisions"
UNMATCHED = "no ManagedCluster stands for this target"
_EVEN = 50.0


class Reference(NamedTuple):
    """The Placement in the pod's namespace that it follows, and the decision group."""

    name: str
    group: str = ""
    """Empty for all groups."""


class Decided(NamedTuple):
    """A cluster in a PlacementDecision."""

    cluster: str
    score: int | None = None
    """None if the deciding controller does not report it."""


class _Divided(NamedTuple):
    """Result of a Placement's decisions for the targets of one moment."""

    targets: Sequence[TargetInfo]
    refused: Sequence[tuple[TargetInfo, Rejection]]
    scores: Mapping[str, float]
    """Scores of the other targets, by virtual node."""


@dataclass(eq=False)
class Placed:
    """Decision of a Placement at one moment; all pods that follow it share one object until the decision changes."""

    reference: Reference
    scores: Mapping[str, float]
    """Score of each decided cluster, 0 to 100."""
    why: str = ""
    """Why there is no decision, as text; empty if there is one."""
    known: bool = True
    """True if a decision has been read. If False, pods keep their targets."""
    _divided: _Divided | None = field(default=None, init=False, repr=False)

    @cached_property
    def title(self) -> str:
        """Its name in messages."""
        name, group = self.reference
        return f"Placement {name}, group {group}" if group else f"Placement {name}"

    def rejection(self, reason: str) -> Rejection:
        """Return a rejection of a cluster that is not decided, for this reason."""
        return Rejection(NOT_PLACED, f"not in {self.title}: {reason}")

    def is_same(self, other: "Placed") -> bool:
        """Return True if both give the same result for every pod and target."""
        return (self.scores, self.why, self.known) == (other.scores, other.why, other.known)

    def divide(self, targets: Sequence[TargetInfo]) -> _Divided:
        """Return the rejected targets and the scores of the others, cached as long as `targets` is the same object."""
        known = self._divided
        if known is None or known.targets is not targets:
            decided, undecided = self.scores, self.rejection(self.why or UNDECIDED)
            unmatched = undecided if self.why else self.rejection(UNMATCHED)
            refused: list[tuple[TargetInfo, Rejection]] = []
            scores: dict[str, float] = {}
            for target in targets:
                score = decided.get(target.managed_cluster)
                if score is not None:
                    scores[target.node_name] = score
                else:
                    refused.append((target, undecided if target.managed_cluster else unmatched))
            known = self._divided = _Divided(targets, refused, scores)
        return known


def not_placed(pod: PodInfo, targets: Sequence[TargetInfo]) -> Sequence[tuple[TargetInfo, Rejection]]:
    """Filter: targets that the pod's Placement has not decided for."""
    return pod.placed.divide(targets).refused if pod.placed is not None else ()


def placement_scores(pod: PodInfo, targets: Sequence[TargetInfo]) -> Mapping[str, float] | None:
    """Return the scores of the decided clusters as reported by the deciding controller, by virtual node."""
    return pod.placed.divide(targets).scores if pod.placed is not None else None


def shares(decided: Iterable[Decided]) -> dict[str, float]:
    """Scale scores of decisions to 0 to 100, lowest to highest; 50 for an unknown score, or if all are equal."""
    found = {each.cluster: each.score for each in decided if each.cluster}
    told = [score for score in found.values() if score is not None]
    low, high = min(told, default=0), max(told, default=0)
    if low == high:
        return dict.fromkeys(found, _EVEN)
    return {
        cluster: _EVEN if score is None else 100.0 * (score - low) / (high - low) for cluster, score in found.items()
    }


def misplaced(placed: Placed | None, target: TargetInfo) -> str:
    """Return why a pod would not get its current target now: the Placement has decided for other clusters.

    Empty if it would, or if there is no reliable decision.
    """
    if placed is None or not placed.known or not target.managed_cluster or target.managed_cluster in placed.scores:
        return ""
    return f"no longer in {placed.title}"


def reasoned(
    refused: Collection[tuple[TargetInfo, Rejection]], placed: Placed, reasons: Mapping[str, str]
) -> tuple[tuple[TargetInfo, Rejection], ...]:
    """Add the reason for each cluster to rejections by the Placement.

    :param reasons: by cluster, from the evaluation of the Placement
    """
    return tuple(
        (target, placed.rejection(reasons[target.managed_cluster]))
        if rejection.reason == NOT_PLACED and target.managed_cluster in reasons
        else (target, rejection)
        for target, rejection in refused
    )
