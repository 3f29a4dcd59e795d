"""What each Placement looks at, so that a change concerns those alone that it may make a difference to. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from agent.ranking.placing.evaluate import ANY_SCORE, cel_expressions, scores_used
from agent.ranking.placing.spec import BALANCE, parse

Key = tuple[str, str]
"""Namespace and name of a Placement."""
Bindings = Mapping[str, frozenset[str]]
"""Namespace to the sets that are bound to it."""


class Interest(msgspec.Struct, frozen=True):
    """What one Placement looks at."""

    sets: frozenset[str]
    """Empty: all that its namespace is bound to."""
    scores: frozenset[str]
    """Names of AddOnPlacementScores."""
    balances: bool
    """Whether it looks at what other Placements decide."""
    expressions: tuple[str, ...]
    """In CEL, which may look at all of a ManagedCluster."""


def interest(placement: Mapping[str, Any]) -> Interest:
    """What a Placement looks at."""
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
    """One object for all Placements that look at the same."""
    return interest


class Interests:
    """What all evaluated Placements look at."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[Key, Interest]] = {}
        self._by_score: dict[str, dict[Key, Interest]] = {}

    def put(self, key: Key, interest: Interest) -> None:
        """A Placement that is evaluated from now on, or has changed."""
        self.drop(key)
        self._by_namespace.setdefault(key[0], {})[key] = interest
        for score in interest.scores:
            self._by_score.setdefault(score, {})[key] = interest

    def drop(self, key: Key) -> None:
        """A Placement that is gone, or not evaluated any more."""
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
        """All in one namespace: its bindings have changed."""
        return iter(list(self._by_namespace.get(namespace, ())))

    def of_sets(
        self, sets: Collection[str], bindings: Bindings, counts: Callable[[Interest], bool] = lambda interest: True
    ) -> Iterator[Key]:
        """Those that look at any of these sets: the sets have changed, or clusters in them."""
        for namespace, found in self._by_namespace.items():
            near = bindings.get(namespace, frozenset()).intersection(sets)
            for key, interest in found.items() if near else ():
                if (not interest.sets or interest.sets & near) and counts(interest):
                    yield key

    def of_score(self, score: str, sets: Collection[str], bindings: Bindings) -> Iterator[Key]:
        """Those that look at a score of a cluster in these sets."""
        looking = {**self._by_score.get(score, {}), **self._by_score.get(ANY_SCORE, {})}
        for key, interest in looking.items():
            near = bindings.get(key[0], frozenset()).intersection(sets)
            if near and (not interest.sets or interest.sets & near):
                yield key
