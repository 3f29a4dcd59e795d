"""Prioritizers: scores of clusters from -100 to 100, in the integer arithmetic of the reference implementation.

`int()` rounds toward zero, as Go does.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import msgspec

from agent.ranking.placing.inputs import ManagedCluster, PlacementInputs, Score
from agent.ranking.placing.spec import ALLOCATABLE, BALANCE, SPREAD, STEADY, Prioritizer

MOST = 100
PREFERRED = "PreferNoSelect"
"""Name under which untolerated taints with this effect are reported, like a score."""
_NOTHING: Mapping[str, Score] = {}


@dataclass(frozen=True)
class Scores:
    """Scores of one prioritizer for the clusters."""

    name: str
    weight: int
    values: Mapping[str, int]
    """By cluster; a missing cluster adds nothing."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Why a cluster has no score of its own, by cluster."""
    again: datetime | None = None
    """When the first of them expires; None if never."""
    since: datetime | None = field(default=None, compare=False)
    """When expiries were evaluated; None if none expires."""

    def holds(self, now: datetime) -> bool:
        """Return True if no score has expired since."""
        return self.since is None or (self.since <= now and (self.again is None or now < self.again))

    def told(self, clusters: Sequence[str]) -> list[str]:
        """Return the texts in reasons of decisions, one per cluster: `Steady 100`, `AddOn/usage/cpu 52 x -2`."""
        name, values, notes = self.name, self.values, self.notes
        weight = "" if self.weight == 1 else f" x {self.weight}"
        if self.name == PREFERRED:
            return [f"{name} {values[each]}" if each in values else "" for each in clusters]
        if not notes:
            return [f"{name} {values.get(each, 0)}{weight}" for each in clusters]
        said = {each: f" ({note})" for each, note in notes.items()}
        return [f"{name} {values.get(each, 0)}{weight}{said.get(each, '')}" for each in clusters]


class Scored(msgspec.Struct, frozen=True):
    """All scores of the feasible clusters."""

    parts: Sequence[Scores]
    warnings: tuple[str, ...] = ()


def totals(parts: Sequence[Scores], names: Sequence[str]) -> dict[str, int]:
    """Return the weighted sum for each cluster."""
    found = dict.fromkeys(names, 0)
    for part in parts:
        weight = part.weight
        for name, value in part.values.items():
            if value:
                found[name] += value * weight
    return found


def score(
    wanted: Sequence[Prioritizer],
    clusters: Sequence[ManagedCluster],
    fleet: PlacementInputs,
    decided: Collection[str],
    elsewhere: Mapping[str, int],
    now: datetime,
    same: Hashable = None,
) -> Scored:
    """Return the scores of every prioritizer but Spread, which needs the others' totals.

    :param same: equal for equal clusters of one fleet, so that results are cached; None for no caching
    """

    def once(prioritizer: Prioritizer, ask: Callable[[], Scores]) -> Scores:
        key = ("scores", same, prioritizer)
        return ask() if same is None else fleet.once(key, ask, lambda known: known.holds(now))

    names = [cluster.name for cluster in clusters]
    parts, warnings = [], []
    for each in wanted:
        if each.built_in == STEADY:
            parts.append(Scores(STEADY, each.weight, steady(names, decided)))
        elif each.built_in == BALANCE:
            parts.append(Scores(BALANCE, each.weight, balance(names, elsewhere)))
        elif each.built_in in ALLOCATABLE:
            parts.append(once(each, partial(_allocatable, each, clusters)))
        elif each.built_in != SPREAD:
            part = once(each, partial(addon, each, names, fleet, now))
            parts.append(part)
            expired = [name for name, note in part.notes.items() if note == "expired"]
            if expired:
                listed = "".join(f" {name}/{each.resource}" for name in expired)
                warnings.append(f"AddOnPlacementScores{listed} expired in plugin {each.name}")
    return Scored(parts, tuple(dict.fromkeys(warnings)))


def steady(names: Sequence[str], decided: Collection[str]) -> dict[str, int]:
    """Return 100 for a cluster that is already decided, else 0."""
    return {name: MOST if name in decided else 0 for name in names}


def balance(names: Sequence[str], elsewhere: Mapping[str, int]) -> dict[str, int]:
    """Score the number of decisions of other Placements for each cluster: 100 for none, -100 for the most."""
    most = max(elsewhere.values(), default=0)
    # Counts repeat among clusters.
    scores = {count: 2 * int(float(MOST) * (0.5 - count / most)) for count in set(elsewhere.values()) if count}
    return {name: scores.get(elsewhere.get(name, 0), MOST) for name in names}


def allocatable(clusters: Sequence[ManagedCluster], resource: str) -> dict[str, int]:
    """Scale allocatable amounts between the least and the most; clusters that do not report them are left out."""
    amounts = {cluster.name: cluster.allocatable[resource] for cluster in clusters if resource in cluster.allocatable}
    least, most = min(amounts.values(), default=0.0), max(amounts.values(), default=0.0)
    if least == most:
        return dict.fromkeys(amounts, MOST)
    # In this order of operations: 80 between 50 and 100 is 19, as in the reference.
    return {name: int(((amount - least) / (most - least) - 0.5) * 2.0 * 100.0) for name, amount in amounts.items()}


def _allocatable(wanted: Prioritizer, clusters: Sequence[ManagedCluster]) -> Scores:
    values = allocatable(clusters, ALLOCATABLE[wanted.built_in])
    notes = {cluster.name: "missing" for cluster in clusters if cluster.name not in values}
    return Scores(wanted.name, wanted.weight, values, notes)


def addon(wanted: Prioritizer, names: Sequence[str], fleet: PlacementInputs, now: datetime) -> Scores:
    """Return the values of an AddOnPlacementScore; 0 if it is missing or has expired."""
    values, notes, again = {}, {}, None
    for name in names:
        found = fleet.scores.get((name, wanted.resource), _NOTHING).get(wanted.score)
        if found is None or found.expired(now):
            values[name], notes[name] = 0, "missing" if found is None else "expired"
            continue
        values[name] = found.value
        if found.until is not None and (again is None or found.until < again):
            again = found.until
    return Scores(wanted.name, wanted.weight, values, notes, again, now)


def preferences(avoided: Mapping[str, int]) -> Scores:
    """Return the penalty of untolerated taints with PreferNoSelect."""
    return Scores(PREFERRED, 1, {name: -MOST * count for name, count in avoided.items()})
