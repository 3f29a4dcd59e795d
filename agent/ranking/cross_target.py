"""Constraints over all targets together, for pods that have or match them: topology spread, pod (anti-)affinity."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.ranking import filters, pod_affinity, spread
from agent.ranking.pod_terms import PodSelector, Spread, Term, Terms, terms_of
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, TargetInfo
from agent.ranking.usage import Usages

Reject = Callable[[TargetInfo], Rejection | None]


class CrossTarget:
    """Filters and scores of one pod that depend on all targets."""

    def __init__(self, pod: PodInfo, terms: Terms, targets: Sequence[TargetInfo], usages: Usages) -> None:
        self._pod = pod
        self._terms = terms
        self._targets = targets
        self._usages = usages
        placed = usages.get(pod.uid) if pod.uid else None
        self._own_node = placed.node if placed is not None else ""
        self._own_terms = terms_of(placed.pod) if placed is not None else None

    @classmethod
    def of(cls, pod: PodInfo, targets: Sequence[TargetInfo], usages: Usages) -> "CrossTarget | None":
        """Return None if neither the pod nor any other pod has such constraints that concern it."""
        terms = terms_of(pod)
        counts = usages.counts
        if not terms and not _concern(counts.anti_affinity, pod) and not _concern(counts.preferences, pod):
            return None
        namespace = pod.namespace
        return cls(pod, terms, [target for target in targets if target.namespace in ("", namespace)], usages)

    def topology_spread(self) -> Reject | None:
        """Return a filter for targets where the pod would break a constraint with DoNotSchedule; None without any."""
        hard = self._terms.hard
        return spread.HardSpread(hard, self._targets, self._spread_count, self._counted).reject if hard else None

    def pod_affinity(self) -> Reject | None:
        """Return a filter for targets that required affinity and anti-affinity rule out; None without any."""
        others = pod_affinity.others_anti_affinity(self._usages.counts, self._own_terms, self._own_node)
        found = pod_affinity.PodAffinity(self._pod, self._terms, others, self._count)
        if found.empty:
            return None
        found.survey(self._targets)
        return found.reject

    def spread_scores(self, feasible: Sequence[TargetInfo]) -> list[float] | None:
        """Score by constraints with ScheduleAnyway; None without any."""
        soft = self._terms.soft
        if not soft:
            return None
        return spread.soft_scores(soft, self._targets, feasible, self._spread_count, self._counted)

    def affinity_scores(self, feasible: Sequence[TargetInfo]) -> list[float] | None:
        """Score by preferred affinity and anti-affinity of this and other pods; None without any."""
        preferences = pod_affinity.others_preferences(self._usages.counts, self._own_terms, self._own_node)
        return pod_affinity.scores(self._pod, self._terms, preferences, self._count, self._targets, feasible)

    def _count(self, selectors: tuple[PodSelector, ...], *, leaving: bool = True) -> Mapping[str, int]:
        counts = self._usages.counts.count(selectors, self._usages, leaving=leaving)
        placed = self._usages.get(self._pod.uid) if self._own_node else None
        if placed is None or (placed.deleting and not leaving):
            return counts
        own = placed.pod
        if not all(pods.has(own) for pods in selectors):
            return counts
        # A pod does not attract or repel itself.
        return {**counts, placed.node: counts[placed.node] - 1}

    def _spread_count(self, constraint: Spread) -> Mapping[str, int]:
        return self._count((constraint.pods,), leaving=False)

    def _counted(self, constraint: Spread, target: TargetInfo) -> bool:
        template = self._pod.template
        if constraint.honour_affinity and not filters.selected(template, target):
            return False
        return not constraint.honour_taints or filters.tolerated(template, target)


def _concern(known: Iterable[Term], pod: PodInfo) -> bool:
    return any(term.pods.has(pod) for term in known)
