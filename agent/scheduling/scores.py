"""Scores from 0 to 100 of a target for a pod, and their weights. `plugins.SCORERS` is the list of all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.scheduling.allocation import Allocation
from agent.scheduling.matching import preferred_weight, tolerates
from agent.scheduling.snapshot import PodTemplate, TargetInfo

Strategy = Literal["least", "most"]
STRATEGIES: tuple[Strategy, ...] = ("least", "most")

_NEUTRAL = 50.0


@dataclass(frozen=True)
class Weights:
    """How much each score counts; a target's total is the sum of its scores times these.

    As set here, what a pod's own affinity prefers comes first, then what spreads it and the preferences of those who
    run the targets, then room.
    """

    affinity: float = 1000.0
    """Preferred node affinity over virtual nodes."""
    taints: float = 300.0
    """Taints of effect PreferNoSchedule that are not tolerated."""
    pod_affinity: float = 200.0
    """Preferred affinity and anti-affinity to other pods."""
    spread: float = 200.0
    """Topology spread with ScheduleAnyway."""
    placement: float = 100.0
    """Scores of the decisions of the pod's Placement."""
    target_weight: float = 10.0
    """The annotation `multicluster/weight` of the Target."""
    capacity: float = 1.0
    """Least or most allocated."""
    images: float = 0.001
    """Images that pods of ours have brought there: breaks ties only, or a burst of one image would fill the first."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Scores of others, by the name of their setting; a negative weight prefers low scores."""
    strategy: Strategy = "least"

    def of(self, score: str) -> float:
        """How much a score counts, by its name."""
        return self.extra[score] if score in self.extra else float(getattr(self, score))


def capacity(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
    """How much of the target would be left with the pod there (`least` allocated), or taken (`most`)."""
    share = 100.0 * allocation.share(template)
    return share if weights.strategy == "most" else 100.0 - share


def target_weight(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
    """The annotation of the Target; none is as good as 0."""
    return _middle(allocation.target.weight) if allocation.target.weight else _NEUTRAL


def images(template: PodTemplate, allocation: Allocation, weights: Weights) -> float | None:
    """The share of the pod's images that pods of ours have brought there."""
    there, wanted = allocation.usage.images, template.images
    return 100.0 * sum(map(there.__contains__, wanted)) / len(wanted) if there and wanted else None


def external(name: str) -> Callable[[PodTemplate, Allocation, Weights], float]:
    """A score that somebody else gives targets; a missing or expired one is neither good nor bad."""

    def score(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
        extra = allocation.target.extra.get(name)
        return _middle(extra.value) if extra is not None else _NEUTRAL

    return score


def _middle(value: int) -> float:
    """-100..100 as 0..100."""
    return (max(-100, min(100, value)) + 100) / 2


def preferred_affinity(template: PodTemplate, target: TargetInfo) -> int:
    """Sum of the weights of the preferred node affinity terms that the virtual node matches."""
    return preferred_weight(template.affinity, target.labels, target.node_name) if template.affinity else 0


def untolerated(template: PodTemplate, target: TargetInfo) -> int:
    """How many taints of effect PreferNoSchedule a pod does not tolerate."""
    if not target.softly_tainted:
        return 0
    count = 0
    for taint in target.taints:
        if taint.get("effect") == "PreferNoSchedule":
            tolerations = template.proxy.get("tolerations") or ()
            count += not any(tolerates(toleration, taint) for toleration in tolerations)
    return count


def share_of_most(raw: Sequence[int], *, reverse: bool = False) -> list[float]:
    """Counts as 0 to 100 of the highest, or the other way round: kube-scheduler's `DefaultNormalizeScore`."""
    most = max(raw, default=0)
    if not most:
        return [100.0 if reverse else 0.0] * len(raw)
    return [100.0 * (most - value if reverse else value) / most for value in raw]
