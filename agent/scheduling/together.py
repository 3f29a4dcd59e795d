"""Rules that look at all targets together, for pods that have such constraints or meet them: topology spread, pod
affinity and anti-affinity.
"""

from collections.abc import Iterable, Mapping, Sequence

from agent.scheduling import filters, neighbours, spread
from agent.scheduling.examined import Examined
from agent.scheduling.holdings import Holdings
from agent.scheduling.podterms import Crowd, Spread, Term, Terms, terms_of
from agent.scheduling.snapshot import Demand, Place
from agent.scheduling.verdict import Verdict


class Together:
    """What they say of each target."""

    def __init__(self, demand: Demand, terms: Terms, places: Sequence[Place], holdings: Holdings) -> None:
        self._demand = demand
        self._terms = terms
        self._places = places
        self._holdings = holdings
        resident = holdings.get(demand.uid) if demand.uid else None
        self._own_node = resident.node if resident is not None else ""
        self._own_terms = terms_of(resident.demand) if resident is not None else None
        others = neighbours.others_apart(holdings.census, self._own_terms, self._own_node)
        self._neighbours = neighbours.Neighbours(demand, terms, others, self._count)
        if not self._neighbours.idle:
            self._neighbours.survey(places)
        self._spread = spread.HardSpread(terms.hard, places, self._spread_count, self._counted) if terms.hard else None

    @classmethod
    def of(cls, demand: Demand, entries: Sequence[Examined], holdings: Holdings) -> "Together | None":
        """None for a pod without such constraints where no pod that is there has any."""
        terms = terms_of(demand)
        census = holdings.census
        if not terms and not _concern(census.apart, demand) and not _concern(census.drawn, demand):
            return None
        namespace = demand.namespace
        places = [entry.place for entry in entries if entry.place.namespace in ("", namespace)]
        return cls(demand, terms, places, holdings)

    def refuse(self, place: Place) -> Verdict | None:
        """Why the pod may not go there."""
        if self._spread is not None and (verdict := self._spread.refuse(place)) is not None:
            return verdict
        return None if self._neighbours.idle else self._neighbours.refuse(place)

    def spread_scores(self, feasible: Sequence[Place]) -> list[float] | None:
        """By constraints with ScheduleAnyway; None without any."""
        soft = self._terms.soft
        if not soft:
            return None
        return spread.soft_scores(soft, self._places, feasible, self._spread_count, self._counted)

    def neighbour_scores(self, feasible: Sequence[Place]) -> list[float] | None:
        """By preferred affinity and anti-affinity; None when nobody prefers anything."""
        drawn = neighbours.others_drawn(self._holdings.census, self._own_terms, self._own_node)
        return neighbours.scores(self._demand, self._terms, drawn, self._count, self._places, feasible)

    def _count(self, crowds: tuple[Crowd, ...], *, leaving: bool = True) -> Mapping[str, int]:
        counts = self._holdings.census.count(crowds, self._holdings, leaving=leaving)
        resident = self._holdings.get(self._demand.uid) if self._own_node else None
        if resident is None or (resident.deleting and not leaving):
            return counts
        own = resident.demand
        if not all(crowd.has(own) for crowd in crowds):
            return counts
        # A pod is not its own neighbour.
        return {**counts, resident.node: counts[resident.node] - 1}

    def _spread_count(self, constraint: Spread) -> Mapping[str, int]:
        return self._count((constraint.crowd,), leaving=False)

    def _counted(self, constraint: Spread, place: Place) -> bool:
        wants = self._demand.wants
        if constraint.honour_affinity and not filters.selected(wants, place):
            return False
        return not constraint.honour_taints or filters.tolerated(wants, place)


def _concern(known: Iterable[Term], demand: Demand) -> bool:
    return any(term.crowd.has(demand) for term in known)
