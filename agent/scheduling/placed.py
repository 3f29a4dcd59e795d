"""Placed: targets that a pod's Placement allows, their scores, and the reasons against the others. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from agent.scheduling.rejection import Rejection
from agent.scheduling.snapshot import PodInfo, TargetInfo

NOT_PLACED = "NotPlaced"
UNDECIDED = "not among its decisions"
UNMATCHED = "no ManagedCluster stands for this target"
_EVEN = 50.0


class Reference(NamedTuple):
    """What a pod follows: a Placement of its namespace, and which of its decision groups."""

    name: str
    group: str = ""
    """Empty for all."""


class Decided(NamedTuple):
    """A cluster as a PlacementDecision names it."""

    cluster: str
    score: int | None = None
    """None where whoever decided does not tell."""


class _Divided(NamedTuple):
    """What a Placement's decisions mean for the targets of one moment."""

    targets: Sequence[TargetInfo]
    refused: Sequence[tuple[TargetInfo, Rejection]]
    scores: Mapping[str, float]
    """Of the others, by virtual node."""


@dataclass(eq=False)
class Placed:
    """What a Placement has decided at one moment: one object for all pods that follow it, until it decides anew."""

    reference: Reference
    scores: Mapping[str, float]
    """Decided clusters to 0 to 100."""
    why: str = ""
    """Why there is none, in words; empty where there is one."""
    known: bool = True
    """Whether it has decided at all. If not, nothing that a pod has already is taken from it."""
    _divided: _Divided | None = field(default=None, init=False, repr=False)

    @cached_property
    def title(self) -> str:
        """How it is called in messages."""
        name, group = self.reference
        return f"Placement {name}, group {group}" if group else f"Placement {name}"

    def rejection(self, reason: str) -> Rejection:
        """A cluster is not decided, for this reason."""
        return Rejection(NOT_PLACED, f"not in {self.title}: {reason}")

    def is_same(self, other: "Placed") -> bool:
        """Whether it says the same of every pod and target."""
        return (self.scores, self.why, self.known) == (other.scores, other.why, other.known)

    def divide(self, targets: Sequence[TargetInfo]) -> _Divided:
        """Those of these targets that are refused, and the scores of the others: kept as long as they are the same."""
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
    """Targets that the pod's Placement has not decided for."""
    return pod.placed.divide(targets).refused if pod.placed is not None else ()


def placement_scores(pod: PodInfo, targets: Sequence[TargetInfo]) -> Mapping[str, float] | None:
    """How good the decided clusters are, as whoever decided tells, by virtual node."""
    return pod.placed.divide(targets).scores if pod.placed is not None else None


def shares(decided: Iterable[Decided]) -> dict[str, float]:
    """Scores of decisions as 0 to 100 between the lowest and the highest; in the middle where none is better."""
    found = {each.cluster: each.score for each in decided if each.cluster}
    told = [score for score in found.values() if score is not None]
    low, high = min(told, default=0), max(told, default=0)
    if low == high:
        return dict.fromkeys(found, _EVEN)
    return {
        cluster: _EVEN if score is None else 100.0 * (score - low) / (high - low) for cluster, score in found.items()
    }


def misplaced(placed: Placed | None, target: TargetInfo) -> str:
    """Why a pod that has this target would not get it today: its Placement has decided for other clusters.

    Empty where it would, and where nothing has been decided that could be believed.
    """
    if placed is None or not placed.known or not target.managed_cluster or target.managed_cluster in placed.scores:
        return ""
    return f"no longer in {placed.title}"


def reasoned(
    refused: Collection[tuple[TargetInfo, Rejection]], placed: Placed, reasons: Mapping[str, str]
) -> tuple[tuple[TargetInfo, Rejection], ...]:
    """The same rejections, with the reason for each cluster that is known.

    :param reasons: by cluster, as the evaluation of a Placement gives them
    """
    return tuple(
        (target, placed.rejection(reasons[target.managed_cluster]))
        if rejection.reason == NOT_PLACED and target.managed_cluster in reasons
        else (target, rejection)
        for target, rejection in refused
    )
