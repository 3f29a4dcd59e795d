"""Inputs that each Placement depends on, so that a change queues only affected Placements. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from agent.ranking.placing.evaluate import ANY_SCORE, cel_expressions, scores_used
from agent.ranking.placing.spec import BALANCE, parse

Key = tuple[str, str]
"""Namespace and name of a Placement."""
Bindings = Mapping[str, frozenset[str]]
"""Names of bound sets by namespace."""


class Interest(msgspec.Struct, frozen=True):
    """Inputs that one Placement depends on."""

    sets: frozenset[str]
    """Names of its sets; empty for all sets bound to its namespace."""
    scores: frozenset[str]
    """Names of AddOnPlacementScores."""
    balances: bool
    """True if it depends on decisions of other Placements."""
    expressions: tuple[str, ...]
    """CEL expressions, which may depend on any field of a ManagedCluster."""


def interest(placement: Mapping[str, Any]) -> Interest:
    """Return the inputs that a Placement depends on."""
    spec = parse(placement)
    return _shared(
        Interest(
            sets=frozenset(spec.sets),
            scores=scores_used(placement),
            balances=any(each.built_in == BALANCE for each in spec.policy.prioritizers),
            expressions=cel_expressions(placement),
        )
    )


@lru_cache(maxsize=1024)
def _shared(interest: Interest) -> Interest:
    """Return one shared object for equal interests, to save memory."""
    return interest


class Interests:
    """Interests of all evaluated Placements."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Key, Interest]] = {}
        self._by_score: dict[str, dict[Key, Interest]] = {}

    def put(self, key: Key, interest: Interest) -> None:
        """Add or update an evaluated Placement."""
        self.drop(key)
        self._by_namespace.setdefault(key[0], {})[key] = interest
        for score in interest.scores:
            self._by_score.setdefault(score, {})[key] = interest

    def drop(self, key: Key) -> None:
        """Remove a Placement that was deleted or is no longer evaluated."""
        interest = self._by_namespace.get(key[0], {}).pop(key, None)
        if interest is None:
            return
        if not self._by_namespace[key[0]]:
            del self._by_namespace[key[0]]
        for score in interest.scores:
            self._by_score[score].pop(key)
            if not self._by_score[score]:
                del self._by_score[score]

    def __iter__(self) -> Iterator[Key]:
        return (key for found in list(self._by_namespace.values()) for key in list(found))

    def of_namespace(self, namespace: str) -> Iterator[Key]:
        """Yield all Placements of a namespace, for a change of its bindings."""
        return iter(list(self._by_namespace.get(namespace, ())))

    def of_sets(
        self, sets: Collection[str], bindings: Bindings, counts: Callable[[Interest], bool] = lambda interest: True
    ) -> Iterator[Key]:
        """Yield Placements that depend on any of these sets, for a change of the sets or their clusters."""
        for namespace, found in self._by_namespace.items():
            near = bindings.get(namespace, frozenset()).intersection(sets)
            for key, interest in found.items() if near else ():
                if (not interest.sets or interest.sets & near) and counts(interest):
                    yield key

    def of_score(self, score: str, sets: Collection[str], bindings: Bindings) -> Iterator[Key]:
        """Yield Placements that use a score of a cluster in these sets."""
        looking = {**self._by_score.get(score, {}), **self._by_score.get(ANY_SCORE, {})}
        for key, interest in looking.items():
            near = bindings.get(key[0], frozenset()).intersection(sets)
            if near and (not interest.sets or interest.sets & near):
                yield key
