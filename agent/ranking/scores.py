"""Scores from 0 to 100 of a target for a pod, and their weights. `plugins.SCORERS` is the list of all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.ranking.allocation import Allocation
from agent.ranking.matching import preferred_weight, tolerates
from agent.ranking.snapshot import PodTemplate, TargetInfo

Strategy = Literal["least", "most"]
STRATEGIES: tuple[Strategy, ...] = ("least", "most")

_NEUTRAL = 50.0


@dataclass(frozen=True)
class Weights:
    """Weights of the scores; a target's total is the weighted sum of its scores.

    By default the preferences of the pod's own affinity come first, then spreading and preferences of the targets'
    administrators, then capacity.
    """

    affinity: float = 1000.0
    """Preferred node affinity over virtual nodes."""
    taints: float = 300.0
    """Untolerated taints of effect PreferNoSchedule."""
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
    """Images of our pods in the target. Breaks ties only: otherwise a burst of one image would fill the first
    target.
    """
    extra: Mapping[str, float] = field(default_factory=dict)
    """External scores, by the name of their setting; a negative weight prefers low scores."""
    strategy: Strategy = "least"

    def of(self, score: str) -> float:
        """Return the weight of a score by name."""
        return self.extra[score] if score in self.extra else float(getattr(self, score))


def capacity(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
    """Return the share of the target that would be free with the pod (`least` allocated), or allocated (`most`)."""
    share = 100.0 * allocation.share(template)
    return share if weights.strategy == "most" else 100.0 - share


def target_weight(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
    """Return the Target's weight annotation scaled to 0 to 100; 50 without an annotation."""
    return _middle(allocation.target.weight) if allocation.target.weight else _NEUTRAL


def images(template: PodTemplate, allocation: Allocation, weights: Weights) -> float | None:
    """Return the share of the pod's images that our pods have brought to the target; None if either has none."""
    there, wanted = allocation.usage.images, template.images
    return 100.0 * sum(map(there.__contains__, wanted)) / len(wanted) if there and wanted else None


def external(name: str) -> Callable[[PodTemplate, Allocation, Weights], float]:
    """Return a scorer for an external score; a missing or expired one counts as neutral (50)."""

    def score(template: PodTemplate, allocation: Allocation, weights: Weights) -> float:
        extra = allocation.target.extra.get(name)
        return _middle(extra.value) if extra is not None else _NEUTRAL

    return score


def _middle(value: int) -> float:
    """Scale -100..100 to 0..100."""
    return (max(-100, min(100, value)) + 100) / 2


def preferred_affinity(template: PodTemplate, target: TargetInfo) -> int:
    """Sum of the weights of the preferred node affinity terms that the virtual node matches."""
    return preferred_weight(template.affinity, target.labels, target.node_name) if template.affinity else 0


def untolerated(template: PodTemplate, target: TargetInfo) -> int:
    """Return the number of taints of effect PreferNoSchedule that a pod does not tolerate."""
    if not target.softly_tainted:
        return 0
    count = 0
    for taint in target.taints:
        if taint.get("effect") == "PreferNoSchedule":
            tolerations = template.proxy.get("tolerations") or ()
            count += not any(tolerates(toleration, taint) for toleration in tolerations)
    return count


def share_of_most(raw: Sequence[int], *, reverse: bool = False) -> list[float]:
    """Scale counts to 0 to 100 of the highest, or reversed, as kube-scheduler's `DefaultNormalizeScore` does."""
    most = max(raw, default=0)
    if not most:
        return [100.0 if reverse else 0.0] * len(raw)
    return [100.0 * (most - value if reverse else value) / most for value in raw]
