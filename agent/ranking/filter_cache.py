"""Cached results of filters and scorers for one template and one target, until the target or its usage changes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.ranking.plugins import ON_NODES, own_scores, own_total, plugins_of
from agent.ranking.scores import Weights
from agent.ranking.snapshot import PodInfo, PodTemplate, TargetInfo
from agent.ranking.usage import Usage, Usages

if TYPE_CHECKING:
    from agent.ranking.rejection import Rejection

_NOTHING: Mapping[str, int] = {}


class CachedResult:
    """Results of filters and scorers for one target. `rejection` is the first of `hard` and `node_fit`."""

    __slots__ = (
        "by_pod",
        "hard",
        "node_fit",
        "raw",
        "rejection",
        "target",
        "total",
        "total_with_pod",
        "usage",
        "version",
        "weights",
    )

    def __init__(self, template: PodTemplate, target: TargetInfo, usage: Usage, weights: Weights) -> None:
        self.target = target
        self.usage = usage
        self.version = usage.version
        self.weights = weights
        self.hard: Rejection | None = None
        """Rejection that no free capacity would change."""
        self.node_fit: Rejection | None = None
        """Rejection because no node has capacity."""
        self.raw = _NOTHING
        """Results of `Normalized` scorers, by name, without zeros."""
        self.total = 0.0
        """Weighted sum of all scores that depend on the template and the target alone."""
        self.total_with_pod = 0.0
        """`total` plus the weighted score of `by_pod`."""
        self.by_pod: Mapping[str, float] | None = None
        """Last result of the `ByPod` scorer, by virtual node; mostly equal for consecutive pods."""
        self.rejection: Rejection | None = None
        per_target, normalized = plugins_of(target)
        for reject in per_target:
            rejection = reject(template, target, usage)
            if rejection is not None:
                self.hard = self.rejection = rejection
                return
        for reject in ON_NODES:
            if self.rejection is None:
                self.node_fit = self.rejection = reject(template, target, usage)
        for name, count in normalized:
            if raw := count(template, target):
                self.raw = {**self.raw, name: raw}
        self.total = own_total(template, usage.allocation(target), weights)

    def add_by_pod(self, weight: float, scores: Mapping[str, float]) -> None:
        """Compute `total_with_pod` for the result of the `ByPod` scorer."""
        self.by_pod, self.total_with_pod = scores, self.total + weight * scores[self.target.node_name]

    def scores(self, template: PodTemplate) -> dict[str, float]:
        """Return the individual scores that `total` sums up."""
        return own_scores(template, self.usage.allocation(self.target), self.weights)


def cached_results(pod: PodInfo, targets: Sequence[TargetInfo], usages: Usages, weights: Weights) -> list[CachedResult]:
    """Return the results for all targets in their order, computed only for changed targets."""
    template = pod.template
    memo = usages.memo(template)
    found: list[CachedResult] = []
    for target in targets:
        entry = memo.get(target.node_name)
        if (
            entry is None
            or entry.target is not target
            or entry.version != entry.usage.version
            or entry.weights is not weights
        ):
            entry = memo[target.node_name] = CachedResult(template, target, usages.of(target.node_name), weights)
        found.append(entry)
    placed = usages.get(pod.uid) if pod.uid else None
    if placed is not None:
        # A pod's own usage does not count against it.
        for index, target in enumerate(targets):
            if target.node_name == placed.node:
                found[index] = CachedResult(template, target, usages.of(placed.node).without(pod.uid, target), weights)
    return found
