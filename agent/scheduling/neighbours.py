"""Inter-pod affinity and anti-affinity over virtual nodes, with kube-scheduler's meaning (plugins/interpodaffinity)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.scheduling.census import Census
from agent.scheduling.podterms import Crowd, Term, Terms
from agent.scheduling.snapshot import Demand, Place
from agent.scheduling.verdict import Verdict

Count = Callable[[tuple[Crowd, ...]], Mapping[str, int]]
"""How many pods that are part of all crowds each virtual node has, the pod itself apart."""
Domain = tuple[str, str]
"""A label of virtual nodes and its value."""


class Neighbours:
    """What required affinity and anti-affinity, the pod's own and that of others, say of each target."""

    def __init__(self, demand: Demand, terms: Terms, others: Iterable[tuple[Term, Mapping[str, int]]], count: Count):
        self._demand = demand
        self._near = terms.near
        self._terms = [
            (term, term.key, count((term.crowd,)), "pod anti-affinity: a pod that it keeps away from is there")
            for term in terms.apart
        ]
        self._terms += [
            (term, term.key, counts, "pod anti-affinity of a pod that is there")
            for term, counts in others
            if term.crowd.has(demand)
        ]
        self._apart: dict[Domain, str] = {}
        self._near_counts = count(tuple(term.crowd for term in terms.near)) if terms.near else {}
        self._found: set[Domain] = set()
        self._first = False

    @property
    def idle(self) -> bool:
        """Whether they say nothing of any target."""
        return not self._near and not self._terms

    def survey(self, places: Sequence[Place]) -> None:
        """Look at all targets: what is near is decided by what they have in common."""
        apart: dict[Domain, str] = {}
        for _, key, counts, message in self._terms:
            for place in places:
                if counts.get(place.node_name) and key in place.labels:
                    apart.setdefault((key, place.labels[key]), message)
        self._apart = apart
        for place in places:
            if self._near_counts.get(place.node_name):
                self._found |= {(term.key, place.labels[term.key]) for term in self._near if term.key in place.labels}
        # The first of a group of pods that want to be together may go anywhere.
        self._first = not self._found and all(term.crowd.has(self._demand) for term in self._near)

    def refuse(self, place: Place) -> Verdict | None:
        """Why the pod may not go there."""
        for _, key, _, _ in self._terms:
            value = place.labels.get(key)
            if value is not None and (message := self._apart.get((key, value))):
                return Verdict("PodAntiAffinity", message)
        for term in self._near:
            value = place.labels.get(term.key)
            if value is None:
                return Verdict("PodAffinity", f"virtual node lacks the label {term.key} of a pod affinity")
            if not self._first and (term.key, value) not in self._found:
                return Verdict("PodAffinity", f"pod affinity: no pod that it wants to be near to has this {term.key}")
        return None


def others_apart(census: Census, own: Terms | None, node: str) -> list[tuple[Term, Mapping[str, int]]]:
    """Required anti-affinity of pods that are there, without the pod's own where it is one of them."""
    return _minus(census.apart, own.apart if own else (), node)


def others_drawn(census: Census, own: Terms | None, node: str) -> list[tuple[Term, Mapping[str, int]]]:
    """Affinity and preferences of pods that are there, without the pod's own where it is one of them."""
    mine = (*(term._replace(weight=1) for term in own.near), *own.preferred) if own else ()
    return _minus(census.drawn, mine, node)


def _minus(
    known: Mapping[Term, Mapping[str, int]], own: Sequence[Term], node: str
) -> list[tuple[Term, Mapping[str, int]]]:
    found = []
    for term, counts in known.items():
        mine = own.count(term)
        found.append((term, {**counts, node: counts[node] - mine} if mine else counts))
    return found


def scores(
    demand: Demand,
    terms: Terms,
    drawn: Iterable[tuple[Term, Mapping[str, int]]],
    count: Count,
    places: Sequence[Place],
    feasible: Sequence[Place],
) -> list[float] | None:
    """0 to 100 for each feasible target by preferred affinity and anti-affinity, the pod's own and that of others;
    None when nobody prefers anything.
    """
    sums: dict[Domain, int] = {}
    pulls = [(term.key, term.weight, count((term.crowd,))) for term in terms.preferred]
    pulls += [(term.key, term.weight, counts) for term, counts in drawn if term.weight and term.crowd.has(demand)]
    if not pulls:
        return None
    for key, weight, counts in pulls:
        for place in places:
            number = counts.get(place.node_name)
            if number and key in place.labels:
                domain = (key, place.labels[key])
                sums[domain] = sums.get(domain, 0) + weight * number
    keys = {key for key, _, _ in pulls}
    raw = [sum(sums.get((key, place.labels[key]), 0) for key in keys if key in place.labels) for place in feasible]
    lowest, highest = min(raw, default=0), max(raw, default=0)
    if lowest == highest:
        return [0.0] * len(raw)
    return [100.0 * (value - lowest) / (highest - lowest) for value in raw]
