"""Which of our pods are where, counted by what constraints ask: only what some pod's constraints need is counted."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.scheduling.podterms import Crowd, Term, terms_of
from agent.scheduling.snapshot import Demand

_CROWDS = 128
"""Counts that are kept up to date; those that nobody asked for the longest are dropped."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A pod of ours and its virtual node."""

    demand: Demand
    node: str
    deleting: bool = False


class Census:
    """Counts by virtual node, kept with every change."""

    def __init__(self) -> None:
        self._crowds: OrderedDict[tuple[tuple[Crowd, ...], bool], dict[str, int]] = OrderedDict()
        self.apart: dict[Term, dict[str, int]] = {}
        """Required anti-affinity terms of the pods that are here, with how many pods of each node have them."""
        self.drawn: dict[Term, dict[str, int]] = {}
        """The same of required affinity, and of preferred affinity and anti-affinity by weight."""

    def note(self, resident: Resident, sign: int) -> None:
        """A pod came (1) or went (-1)."""
        demand = resident.demand
        for (crowds, leaving), counts in self._crowds.items():
            if _counts(resident, crowds, leaving):
                _add(counts, resident.node, sign)
        terms = terms_of(demand)
        for term in terms.apart:
            _note(self.apart, term, resident.node, sign)
        for term in (*(term._replace(weight=1) for term in terms.near), *terms.preferred):
            _note(self.drawn, term, resident.node, sign)

    def count(
        self, crowds: tuple[Crowd, ...], residents: Iterable[Resident], *, leaving: bool = True
    ) -> Mapping[str, int]:
        """How many pods that are part of all these crowds each virtual node has.

        :param residents: all of them, for a count that is not kept yet
        :param leaving: whether pods that are being deleted count
        """
        key = (crowds, leaving)
        counts = self._crowds.get(key)
        if counts is None:
            counts = self._crowds[key] = {}
            for resident in residents:
                if _counts(resident, crowds, leaving):
                    _add(counts, resident.node, 1)
            if len(self._crowds) > _CROWDS:
                self._crowds.popitem(last=False)
        self._crowds.move_to_end(key)
        return counts

    def recount(self) -> None:
        """Labels of namespaces have changed: who is part of a crowd is found out anew."""
        self._crowds.clear()


def _counts(resident: Resident, crowds: tuple[Crowd, ...], leaving: bool) -> bool:
    if resident.deleting and not leaving:
        return False
    demand = resident.demand
    return all(crowd.has(demand) for crowd in crowds)


def _note(known: dict[Term, dict[str, int]], term: Term, node: str, sign: int) -> None:
    counts = known.setdefault(term, {})
    _add(counts, node, sign)
    if not counts:
        del known[term]


def _add(counts: dict[str, int], node: str, sign: int) -> None:
    count = counts.get(node, 0) + sign
    if count:
        counts[node] = count
    else:
        counts.pop(node, None)
