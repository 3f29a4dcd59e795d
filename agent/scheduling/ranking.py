"""Which target first: filters, then scores, best first, ties broken evenly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from agent.scheduling.examined import Examined, examine
from agent.scheduling.holdings import Holdings
from agent.scheduling.scores import Weights, share_of_most
from agent.scheduling.snapshot import Demand, Place
from agent.scheduling.together import Together
from agent.scheduling.verdict import Verdict

__all__ = ["Ranking", "Scored", "rank"]

UNROOMY = ("NoRoom", "HostPortTaken", "TooBig", "NoNode")
"""Reasons for which room is missing, by how easily an autoscaler may make some."""


@dataclass(frozen=True)
class Scored:
    """The scores of one target, each 0 to 100, and their weighted sum."""

    scores: Mapping[str, float]
    total: float


@dataclass(frozen=True)
class Ranking:
    """The outcome for one pod."""

    order: tuple[Place, ...]
    """Targets the pod may go to, best first; those that it has not tried yet before the others."""
    untried: int
    """How many of them, from the first, it has not tried."""
    refused: tuple[tuple[Place, Verdict], ...]
    """The others, and why not."""
    pending: tuple[Place, ...] = ()
    """Of the refused, those that lack nothing but room on a node, best first: where one candidate may wait for it."""
    parts: tuple[tuple[str, float, Mapping[str, float]], ...] = field(default=(), repr=False)
    """Scores that compare targets: name, weight, and score by virtual node."""
    examined: Sequence[Examined] = field(default=(), repr=False)

    def total(self, place: Place) -> float:
        """The weighted sum of all scores of a target, 0 where none was taken."""
        for entry in self.examined:
            if entry.place is place:
                return entry.total + sum(weight * found.get(place.node_name, 0.0) for _, weight, found in self.parts)
        return 0.0

    def scored(self, demand: Demand, place: Place) -> Scored | None:
        """The scores of a target that the pod may go to, or where it may wait for room."""
        for entry in self.examined:
            if entry.place is place and entry.hard is None:
                scores = entry.scores(demand.wants)
                total = entry.total
                for name, weight, found in self.parts:
                    scores[name] = found.get(place.node_name, 0.0)
                    total += weight * scores[name]
                return Scored(scores, total)
        return None


_total = attrgetter("total")


def rank(demand: Demand, places: Sequence[Place], holdings: Holdings, weights: Weights, *, turn: int = 0) -> Ranking:
    """Order the targets for a pod.

    :param turn: a number that grows with every pod; which of several equally good targets comes first goes round by it
    """
    places, away = _beside_volumes(demand, places)
    entries = examine(demand, places, holdings, weights)
    together = Together.of(demand, entries, holdings)
    if together is None:
        feasible = [entry for entry in entries if entry.verdict is None]
        refused = [(entry, entry.verdict) for entry in entries if entry.verdict is not None]
    else:
        feasible, refused = _divide(entries, together)
    parts = _parts(demand, feasible, together, weights)
    ranked = _ordered(feasible, parts, turn)
    tried = [place for place in ranked if place.node_name in demand.attempts] if demand.attempts else []
    untried = [place for place in ranked if place.node_name not in demand.attempts] if tried else ranked
    return Ranking(
        order=(*untried, *tried),
        untried=len(untried),
        refused=(
            *away,
            *((entry.place, verdict) for entry, verdict in refused if verdict.reason != "OtherNamespace"),
        ),
        pending=_pending(refused) if not feasible else (),
        parts=parts,
        examined=entries,
    )


def _beside_volumes(
    demand: Demand, places: Sequence[Place]
) -> tuple[Sequence[Place], tuple[tuple[Place, Verdict], ...]]:
    """Targets that have all volumes of the pod's claims, and the others with the reason."""
    if not demand.volumes:
        return places, ()
    away = []
    titles = {place.node_name: place.title for place in places}
    for place in places:
        claims = sorted(claim for claim, node in demand.volumes.items() if node != place.node_name)
        if claims:
            node = demand.volumes[claims[0]]
            message = f"the volume of claim {claims[0]} is in {titles.get(node, node)}"
            away.append((place, Verdict("VolumeElsewhere", message)))
    elsewhere = {place.node_name for place, _ in away}
    return [place for place in places if place.node_name not in elsewhere], tuple(away)


def _divide(entries: Sequence[Examined], together: Together) -> tuple[list[Examined], list[tuple[Examined, Verdict]]]:
    feasible: list[Examined] = []
    refused: list[tuple[Examined, Verdict]] = []
    for entry in entries:
        verdict = entry.hard or together.refuse(entry.place) or entry.room
        if verdict is None:
            feasible.append(entry)
        else:
            refused.append((entry, verdict))
    return feasible, refused


def _pending(refused: Sequence[tuple[Examined, Verdict]]) -> tuple[Place, ...]:
    found = [(entry, verdict) for entry, verdict in refused if entry.hard is None and verdict is entry.room]
    found.sort(key=lambda item: (UNROOMY.index(item[1].reason), item[0].place.slow, -item[0].preferred, -item[0].total))
    return tuple(entry.place for entry, _ in found)


def _parts(
    demand: Demand, feasible: Sequence[Examined], together: Together | None, weights: Weights
) -> tuple[tuple[str, float, Mapping[str, float]], ...]:
    """Scores that compare targets; empty for most pods."""
    found: list[tuple[str, float, Sequence[float]]] = []
    if any(entry.preferred for entry in feasible):
        found.append(("affinity", weights.affinity, share_of_most([entry.preferred for entry in feasible])))
    if any(entry.unloved for entry in feasible):
        raw = [entry.unloved for entry in feasible]
        found.append(("taints", weights.taints, share_of_most(raw, reverse=True)))
    if together is not None:
        places = [entry.place for entry in feasible]
        for name, weight, scores in (
            ("spread", weights.spread, together.spread_scores(places)),
            ("pod_affinity", weights.pod_affinity, together.neighbour_scores(places)),
        ):
            if scores is not None:
                found.append((name, weight, scores))
    nodes = [entry.place.node_name for entry in feasible] if found else []
    return tuple((name, weight, dict(zip(nodes, scores, strict=True))) for name, weight, scores in found)


def _ordered(
    feasible: list[Examined], parts: Sequence[tuple[str, float, Mapping[str, float]]], turn: int
) -> list[Place]:
    if not parts:
        feasible.sort(key=_total, reverse=True)
        totals = [entry.total for entry in feasible]
        places = [entry.place for entry in feasible]
    else:
        known = {
            entry.place.node_name: entry.total
            + sum(weight * scores[entry.place.node_name] for _, weight, scores in parts)
            for entry in feasible
        }
        places = sorted((entry.place for entry in feasible), key=lambda place: known[place.node_name], reverse=True)
        totals = [known[place.node_name] for place in places]
    _rotate(places, totals, turn)
    if any(place.slow for place in places):
        places.sort(key=lambda place: place.slow)
    return places


def _rotate(places: list[Place], totals: Sequence[float], turn: int) -> None:
    """Let those with the same total take turns."""
    start, count = 0, len(places)
    while start < count:
        end = start + 1
        while end < count and totals[end] == totals[start]:
            end += 1
        if end - start > 1:
            shift = turn % (end - start)
            places[start:end] = places[start + shift : end] + places[start : start + shift]
        start = end
