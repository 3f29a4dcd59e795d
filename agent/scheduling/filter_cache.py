"""What is found out about a pod and one target alone; pods that ask the same share it until the target changes."""

from collections.abc import Sequence

from agent.scheduling.filters import reject
from agent.scheduling.matching import preferred_weight
from agent.scheduling.node_fit import reject_by_totals
from agent.scheduling.quota import over_limit, over_quota
from agent.scheduling.rejection import Rejection
from agent.scheduling.scores import Weights, own_scores, own_total, untolerated
from agent.scheduling.snapshot import PodInfo, PodTemplate, TargetInfo
from agent.scheduling.usage import Usage, Usages


class CachedResult:
    """`rejection` is the first of `hard` and `node_fit`."""

    __slots__ = (
        "hard",
        "node_fit",
        "preferred",
        "rejection",
        "target",
        "total",
        "untolerated",
        "usage",
        "version",
        "weights",
    )

    def __init__(self, template: PodTemplate, target: TargetInfo, usage: Usage, weights: Weights) -> None:
        self.target = target
        self.usage = usage
        self.version = usage.version
        self.weights = weights
        self.hard = reject(template, target) or _bounded(template, target, usage)
        """What keeps the pod away that no free room would change."""
        self.node_fit: Rejection | None = None
        """Why no node has room for it."""
        self.preferred = 0
        self.untolerated = 0
        self.total = 0.0
        if self.hard is None:
            allocation = usage.allocation(target)
            self.node_fit = usage.node_fit(target, template) if target.shapes else reject_by_totals(target, template)
            if template.affinity:
                self.preferred = preferred_weight(template.affinity, target.labels, target.node_name)
            if target.softly_tainted:
                self.untolerated = untolerated(template, target)
            self.total = own_total(template, allocation, weights)
        self.rejection = self.hard or self.node_fit

    def scores(self, template: PodTemplate) -> dict[str, float]:
        """The single scores whose weighted sum `total` is."""
        return own_scores(template, self.usage.allocation(self.target), self.weights)


def _bounded(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    rejection = over_limit(target.limits, usage.requests, template) if target.limits else None
    if rejection is None and target.quotas:
        quotas = target.quotas.get(template.namespace)
        if quotas:
            rejection = over_quota(quotas, usage.undelegated_in(template.namespace), template)
    return rejection


def cached_results(pod: PodInfo, targets: Sequence[TargetInfo], usages: Usages, weights: Weights) -> list[CachedResult]:
    """All targets, in their order; those that have not changed since are not looked at again."""
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
        # A pod is not in its own way.
        for index, target in enumerate(targets):
            if target.node_name == placed.node:
                found[index] = CachedResult(template, target, usages.of(placed.node).without(pod.uid, target), weights)
    return found
