"""Counts of our pods in each target, only for the selectors that some pod's constraints contain."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import msgspec

from agent.ranking.pod_terms import PodSelector, Term, terms_of
from agent.ranking.snapshot import PodInfo

_KEPT = 128
"""Maximum number of counts kept up to date; the least recently used are dropped."""


class PlacedPod(msgspec.Struct, frozen=True):
    """A pod of ours and its virtual node."""

    pod: PodInfo
    node: str
    deleting: bool = False


class PodCounts:
    """Counts by virtual node, updated with every change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[tuple[PodSelector, ...], bool], dict[str, int]] = OrderedDict()
        self.anti_affinity: dict[Term, dict[str, int]] = {}
        """Number of pods on each node by their required anti-affinity terms."""
        self.preferences: dict[Term, dict[str, int]] = {}
        """As `anti_affinity`, for required affinity, and for preferred affinity and anti-affinity with weights."""

    def note(self, placed: PlacedPod, sign: int) -> None:
        """Count a pod that was added (1) or removed (-1)."""
        pod = placed.pod
        for (selectors, leaving), counts in self._kept.items():
            if _selected(placed, selectors, leaving):
                _add(counts, placed.node, sign)
        terms = terms_of(pod)
        for term in terms.anti_affinity:
            _note(self.anti_affinity, term, placed.node, sign)
        for term in (*(term._replace(weight=1) for term in terms.affinity), *terms.preferred):
            _note(self.preferences, term, placed.node, sign)

    def count(
        self, selectors: tuple[PodSelector, ...], placed_pods: Iterable[PlacedPod], *, leaving: bool = True
    ) -> Mapping[str, int]:
        """Return the number of pods on each virtual node that match all these selectors.

        :param placed_pods: all our pods, to compute a count that is not cached yet
        :param leaving: True to include pods that are being deleted
        """
        key = (selectors, leaving)
        counts = self._kept.get(key)
        if counts is None:
            counts = self._kept[key] = {}
            for placed in placed_pods:
                if _selected(placed, selectors, leaving):
                    _add(counts, placed.node, 1)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return counts

    def recount(self) -> None:
        """Drop all counts after labels of namespaces have changed: selectors may match other pods."""
        self._kept.clear()


def _selected(placed: PlacedPod, selectors: tuple[PodSelector, ...], leaving: bool) -> bool:
    if placed.deleting and not leaving:
        return False
    pod = placed.pod
    return all(pods.has(pod) for pods in selectors)


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
