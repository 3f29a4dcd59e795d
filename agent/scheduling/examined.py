"""What is found out about a pod and one target alone; pods that ask the same share it until the target changes."""

from collections.abc import Sequence

from agent.scheduling.bounds import over_limit, over_quota
from agent.scheduling.filters import refuse
from agent.scheduling.holdings import Holding, Holdings
from agent.scheduling.matching import preferred_weight
from agent.scheduling.rooms import sums
from agent.scheduling.scores import Weights, own_scores, own_total, unloved
from agent.scheduling.snapshot import Demand, Place, Wants
from agent.scheduling.verdict import Verdict


class Examined:
    """`verdict` is the first of `hard` and `room`."""

    __slots__ = ("hard", "holding", "place", "preferred", "room", "total", "unloved", "verdict", "version", "weights")

    def __init__(self, wants: Wants, place: Place, holding: Holding, weights: Weights) -> None:
        self.place = place
        self.holding = holding
        self.version = holding.version
        self.weights = weights
        self.hard = refuse(wants, place) or _bounded(wants, place, holding)
        """What keeps the pod away that no free room would change."""
        self.room: Verdict | None = None
        """Why no node has room for it."""
        self.preferred = 0
        self.unloved = 0
        self.total = 0.0
        if self.hard is None:
            standing = holding.standing(place)
            self.room = holding.room(place, wants) if place.shapes else sums(place, wants)
            if wants.affinity:
                self.preferred = preferred_weight(wants.affinity, place.labels, place.node_name)
            if place.avoided:
                self.unloved = unloved(wants, place)
            self.total = own_total(wants, standing, weights)
        self.verdict = self.hard or self.room

    def scores(self, wants: Wants) -> dict[str, float]:
        """The single scores whose weighted sum `total` is."""
        return own_scores(wants, self.holding.standing(self.place), self.weights)


def _bounded(wants: Wants, place: Place, holding: Holding) -> Verdict | None:
    verdict = over_limit(place.limits, holding.sums, wants) if place.limits else None
    if verdict is None and place.quotas:
        quotas = place.quotas.get(wants.namespace)
        if quotas:
            verdict = over_quota(quotas, holding.coming(wants.namespace), wants)
    return verdict


def examine(demand: Demand, places: Sequence[Place], holdings: Holdings, weights: Weights) -> list[Examined]:
    """All targets, in their order; those that have not changed since are not looked at again."""
    wants = demand.wants
    memo = holdings.memo(wants)
    found: list[Examined] = []
    for place in places:
        entry = memo.get(place.node_name)
        if (
            entry is None
            or entry.place is not place
            or entry.version != entry.holding.version
            or entry.weights is not weights
        ):
            entry = memo[place.node_name] = Examined(wants, place, holdings.of(place.node_name), weights)
        found.append(entry)
    resident = holdings.get(demand.uid) if demand.uid else None
    if resident is not None:
        # A pod is not in its own way.
        for index, place in enumerate(places):
            if place.node_name == resident.node:
                found[index] = Examined(wants, place, holdings.of(resident.node).without(demand.uid, place), weights)
    return found
