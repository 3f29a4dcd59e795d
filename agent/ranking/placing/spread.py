"""spreadPolicy: picks clusters one after the other, best first, so that no domain gets too many.

A domain is the clusters with the same value of a label or claim. Its skew is the number of its picked clusters minus
that of the domain with the fewest.
"""

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import getitem

from agent.ranking.placing.inputs import ManagedCluster
from agent.ranking.placing.spec import SpreadConstraint

Domain = tuple[str | None, ...]
"""Values of one cluster for each constraint; None if it lacks the key."""
_Excess = tuple[float, ...]
_FORBIDDEN = math.inf
"""Greater than any other excess: the pick would break a hard constraint."""
_NO_DOMAIN = 1e9
"""Greater than any excess of a soft constraint."""


def value(constraint: SpreadConstraint, cluster: ManagedCluster) -> str | None:
    """Return the domain of a cluster for a constraint; None if it lacks the key."""
    return (cluster.claims if constraint.claim else cluster.labels).get(constraint.key)


def values(constraint: SpreadConstraint, clusters: Sequence[ManagedCluster]) -> list[str | None]:
    """Return the domains of many clusters."""
    key = constraint.key
    if constraint.claim:
        return [cluster.claims.get(key) for cluster in clusters]
    return [cluster.labels.get(key) for cluster in clusters]


def refusal(constraints: Sequence[SpreadConstraint], cluster: ManagedCluster) -> str:
    """Return the message on the first hard constraint whose key the cluster lacks; empty if it lacks none."""
    for each in constraints:
        if each.hard and value(each, cluster) is None:
            return f"{_told(each)} is missing, wanted by spreadPolicy"
    return ""


def scores(constraints: Sequence[SpreadConstraint], ranked: Sequence[ManagedCluster]) -> dict[str, int]:
    """Score clusters, best first, for the prioritizer Spread: 100 for the first of each domain, -100 for the last of
    the largest one. The result is the mean over all constraints.
    """
    sums: dict[str, int] = dict.fromkeys((cluster.name for cluster in ranked), 0)
    for constraint in constraints:
        places: dict[str, int] = {}
        counts: dict[str, int] = {}
        for cluster, domain in zip(ranked, values(constraint, ranked), strict=True):
            if domain is not None:
                places[cluster.name] = counts[domain] = counts.get(domain, -1) + 1
        most = max(places.values(), default=0) or 1
        for name in sums:
            sums[name] += 100 - int(200 * places[name] / most) if name in places else -100
    return {name: int(total / len(constraints)) for name, total in sums.items()} if constraints else {}


class Picks:
    """Picks clusters within the spread constraints."""

    def __init__(self, constraints: Sequence[SpreadConstraint], ranked: Sequence[ManagedCluster]) -> None:
        self._ranked = ranked
        skews = [_Skew(each, values(each, ranked)) for each in constraints]
        # Domains of a single cluster each are always even.
        self._skews = [skew for skew in skews if skew.uneven]
        self._excesses = [skew.excess for skew in self._skews]

    def choose(self, most: int | None) -> list[str]:
        """Return the best clusters, at most `most`, that keep every hard constraint when picked."""
        if not any(skew.constraint.hard for skew in self._skews) and (
            not self._skews or most is None or most >= len(self._ranked)
        ):
            return [cluster.name for cluster in islice(self._ranked, most)]
        waiting: dict[Domain, deque[tuple[int, str]]] = {}
        domains = zip(*(skew.domains for skew in self._skews), strict=True)
        for rank, (cluster, domain) in enumerate(zip(self._ranked, domains, strict=True)):
            waiting.setdefault(domain, deque()).append((rank, cluster.name))
        chosen: list[str] = []
        heap = self._heap(waiting)
        while heap and (most is None or len(chosen) < most):
            excess, rank, domain = heapq.heappop(heap)
            now = self._excess(domain)
            if now > excess:
                if _FORBIDDEN not in now:
                    heapq.heappush(heap, (now, rank, domain))
                continue
            chosen.append(waiting[domain].popleft()[1])
            if self._add(domain):
                heap = self._heap(waiting)
            elif waiting[domain]:
                heapq.heappush(heap, (now, waiting[domain][0][0], domain))
        return chosen

    def refusal(self, cluster: ManagedCluster) -> str:
        """Return why a cluster was not picked, if a hard constraint excluded it at the end; empty otherwise."""
        for skew in self._skews:
            domain = value(skew.constraint, cluster)
            if domain is not None and skew.excess[domain] == _FORBIDDEN:
                return (
                    f"{_told(skew.constraint)} {domain} would have {skew.counts[domain] + 1} clusters, "
                    f"another has {skew.least}: more than maxSkew {skew.constraint.max_skew}"
                )
        return ""

    def _heap(self, waiting: Mapping[Domain, deque[tuple[int, str]]]) -> list[tuple[_Excess, int, Domain]]:
        found = [
            (excess, queue[0][0], domain)
            for domain, queue in waiting.items()
            if queue and _FORBIDDEN not in (excess := self._excess(domain))
        ]
        heapq.heapify(found)
        return found

    def _excess(self, domain: Domain) -> _Excess:
        """Return by how much one more pick in this domain would exceed each constraint."""
        return tuple(map(getitem, self._excesses, domain))

    def _add(self, domain: Domain) -> bool:
        """Count a pick. Return True if the least count of some constraint has increased."""
        risen = [skew.add(each) for skew, each in zip(self._skews, domain, strict=True) if each is not None]
        return any(risen)


class _Skew:
    """Counts of one constraint while clusters are picked."""

    def __init__(self, constraint: SpreadConstraint, domains: Sequence[str | None]) -> None:
        self.constraint = constraint
        self.domains = domains
        """Domain of each cluster."""
        self.counts = dict.fromkeys([each for each in domains if each is not None], 0)
        self.uneven = len(self.counts) < len(domains)
        self.least = 0
        self.excess: dict[str | None, float] = {
            None: _FORBIDDEN if constraint.hard else _NO_DOMAIN,
            **dict.fromkeys(self.counts, 0),
        }
        """By how much one more pick in a domain would exceed the constraint."""
        self._with_least = len(self.counts)

    def add(self, domain: str) -> bool:
        """Count a pick in a domain. Return True if the least count has increased."""
        count = self.counts[domain]
        self.counts[domain] = count + 1
        self._judge(domain)
        if count > self.least:
            return False
        self._with_least -= 1
        if self._with_least:
            return False
        self.least += 1
        self._with_least = sum(1 for each in self.counts.values() if each == self.least)
        for each in self.counts:
            self._judge(each)
        return True

    def _judge(self, domain: str) -> None:
        excess = self.counts[domain] + 1 - self.least - self.constraint.max_skew
        self.excess[domain] = 0 if excess <= 0 else _FORBIDDEN if self.constraint.hard else excess


def _told(constraint: SpreadConstraint) -> str:
    return f"{'claim' if constraint.claim else 'label'} {constraint.key}"
