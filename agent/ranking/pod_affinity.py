"""Inter-pod affinity and anti-affinity over virtual nodes, as in kube-scheduler (plugins/interpodaffinity)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.ranking.pod_counts import PodCounts
from agent.ranking.pod_terms import PodSelector, Term, Terms
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import PodInfo, TargetInfo

Count = Callable[[tuple[PodSelector, ...]], Mapping[str, int]]
"""Number of pods on each virtual node that match all these selectors, without the pod itself."""
Domain = tuple[str, str]
"""A label key of virtual nodes and a value."""


class PodAffinity:
    """Required affinity and anti-affinity of the pod and of other pods, evaluated for each target."""

    def __init__(self, pod: PodInfo, terms: Terms, others: Iterable[tuple[Term, Mapping[str, int]]], count: Count):
        self._pod = pod
        self._required = terms.affinity
        self._terms = [
            (term, term.key, count((term.pods,)), "pod anti-affinity: a pod that it keeps away from is there")
            for term in terms.anti_affinity
        ]
        self._terms += [
            (term, term.key, counts, "pod anti-affinity of a pod that is there")
            for term, counts in others
            if term.pods.has(pod)
        ]
        self._kept_away: dict[Domain, str] = {}
        self._affinity_counts = count(tuple(term.pods for term in terms.affinity)) if terms.affinity else {}
        self._found: set[Domain] = set()
        self._first = False

    @property
    def empty(self) -> bool:
        """True if no constraint concerns any target."""
        return not self._required and not self._terms

    def survey(self, targets: Sequence[TargetInfo]) -> None:
        """Find the domains that attract or repel the pod, over all targets."""
        self._kept_away = {}
        for _, key, counts, message in self._terms:
            for target in targets:
                if counts.get(target.node_name) and key in target.labels:
                    self._kept_away.setdefault((key, target.labels[key]), message)
        for target in targets:
            if self._affinity_counts.get(target.node_name):
                self._found |= {
                    (term.key, target.labels[term.key]) for term in self._required if term.key in target.labels
                }
        # The first of a group of pods that attract each other may be scheduled anywhere.
        self._first = not self._found and all(term.pods.has(self._pod) for term in self._required)

    def reject(self, target: TargetInfo) -> Rejection | None:
        """Return why the pod may not be scheduled in this target; None if it may."""
        for _, key, _, _ in self._terms:
            value = target.labels.get(key)
            if value is not None and (message := self._kept_away.get((key, value))):
                return Rejection("PodAntiAffinity", message)
        for term in self._required:
            value = target.labels.get(term.key)
            if value is None:
                return Rejection("PodAffinity", f"virtual node lacks the label {term.key} of a pod affinity")
            if not self._first and (term.key, value) not in self._found:
                return Rejection("PodAffinity", f"pod affinity: no pod that it wants to be near to has this {term.key}")
        return None


def others_anti_affinity(counts: PodCounts, own: Terms | None, node: str) -> list[tuple[Term, Mapping[str, int]]]:
    """Return the required anti-affinity of the pods on virtual nodes, without the pod's own terms if it is one of
    them.
    """
    return _minus(counts.anti_affinity, own.anti_affinity if own else (), node)


def others_preferences(counts: PodCounts, own: Terms | None, node: str) -> list[tuple[Term, Mapping[str, int]]]:
    """Return required affinity and preferences of the pods on virtual nodes, without the pod's own if it is one of
    them.
    """
    mine = (*(term._replace(weight=1) for term in own.affinity), *own.preferred) if own else ()
    return _minus(counts.preferences, mine, node)


def _minus(
    known: Mapping[Term, Mapping[str, int]], own: Sequence[Term], node: str
) -> list[tuple[Term, Mapping[str, int]]]:
    found = []
    for term, counts in known.items():
        mine = own.count(term)
        found.append((term, {**counts, node: counts[node] - mine} if mine else counts))
    return found


def scores(
    pod: PodInfo,
    terms: Terms,
    preferences: Iterable[tuple[Term, Mapping[str, int]]],
    count: Count,
    targets: Sequence[TargetInfo],
    feasible: Sequence[TargetInfo],
) -> list[float] | None:
    """Return 0 to 100 for each feasible target, by preferences of the pod and of other pods; None if there are none."""
    requests: dict[Domain, int] = {}
    pulls = [(term.key, term.weight, count((term.pods,))) for term in terms.preferred]
    pulls += [(term.key, term.weight, counts) for term, counts in preferences if term.weight and term.pods.has(pod)]
    if not pulls:
        return None
    for key, weight, counts in pulls:
        for target in targets:
            number = counts.get(target.node_name)
            if number and key in target.labels:
                domain = (key, target.labels[key])
                requests[domain] = requests.get(domain, 0) + weight * number
    keys = {key for key, _, _ in pulls}
    raw = [
        sum(requests.get((key, target.labels[key]), 0) for key in keys if key in target.labels) for target in feasible
    ]
    lowest, highest = min(raw, default=0), max(raw, default=0)
    if lowest == highest:
        return [0.0] * len(raw)
    return [100.0 * (value - lowest) / (highest - lowest) for value in raw]
