"""Undecided: why a Placement that is evaluated here has not decided for clusters, found out when a pod is to be told.

The scheduler evaluates it once more for that: nobody has to write, for each cluster, why it was not chosen.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
)
from agent.base.clock import Clock
from agent.clusters.placement_mode import PlacementMode, Watched
from agent.kube.store import Key, Object, Store
from agent.scheduling.placing import read
from agent.scheduling.placing.evaluate import candidates, cel_expressions, evaluate
from agent.scheduling.placing.inputs import CelVerdicts, Fleet

_KEPT_SECONDS = 2.0
"""All pods of a burst that wait for one Placement are told what was found out for the first."""
_KINDS = (MANAGED_CLUSTERS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SET_BINDINGS, ADDON_PLACEMENT_SCORES)

_Read = TypeVar("_Read")


class _Reader(Generic[_Read]):
    """Objects of one kind as they were read, each until it changes."""

    def __init__(self, read_one: Callable[[Mapping[str, Any]], _Read]) -> None:
        self._read_one = read_one
        self._known: dict[Key, tuple[Object, _Read]] = {}

    def all(self, store: Store) -> dict[Key, _Read]:
        """Every object of a store."""
        known: dict[Key, tuple[Object, _Read]] = {}
        for obj in store:
            before = self._known.get(obj.key)
            known[obj.key] = before if before and before[0] is obj else (obj, self._read_one(obj.decode()))
        self._known = known
        return {key: found for key, (_, found) in known.items()}


class _Told(NamedTuple):
    at: float
    reasons: Mapping[str, str]


class Undecided:
    """Looks at what is watched anyway where Placements are evaluated here, and says nothing where they are not.

    `known` is called when it has something to say that it did not know when it was asked.
    """

    def __init__(self, mode: PlacementMode, clock: Clock, known: Callable[[], None]) -> None:
        self._mode = mode
        self._clock = clock
        self._known = known
        self._watched: tuple[Watched, ...] = ()
        self._told: dict[Key, _Told] = {}
        self._clusters = _Reader(read.managed_cluster)
        self._sets = _Reader(read.cluster_set)
        self._scores = _Reader(read.scores)

    def reasons(
        self, placement: Object, decided: Collection[str], elsewhere: Callable[[], Mapping[str, int]]
    ) -> Mapping[str, str]:
        """By cluster, as far as it is known.

        :param decided: what the Placement has decided
        :param elsewhere: how many decisions of all others name each cluster
        """
        if self._mode.mode != "serve":
            return {}
        now = time.monotonic()
        self._told = {key: told for key, told in self._told.items() if told.at + _KEPT_SECONDS > now}
        if placement.key not in self._told:
            found = self._evaluated(placement, decided, elsewhere)
            self._told[placement.key] = _Told(time.monotonic(), found)
        return self._told[placement.key].reasons

    def _evaluated(
        self, placement: Object, decided: Collection[str], elsewhere: Callable[[], Mapping[str, int]]
    ) -> Mapping[str, str]:
        stores = self._stores()
        if not stores:
            return {}
        manifest, fleet = placement.decode(), self._fleet(*stores)
        now = self._clock.now()
        found = evaluate(manifest, fleet, decided=decided, elsewhere=elsewhere(), cel=CelVerdicts(), now=now).refused
        if not cel_expressions(manifest):
            return found
        # What CEL says of a cluster is known to whoever decides alone.
        inside = frozenset(candidates(manifest, fleet))
        return {cluster: reason for cluster, reason in found.items() if cluster not in inside}

    def forget(self) -> None:
        """Something has been decided anew."""
        self._told.clear()

    def _stores(self) -> Sequence[Store]:
        """Of all kinds, in their order; none before all are known."""
        if not self._watched:
            self._watched = tuple(self._mode.watch(kind) for kind in _KINDS)
            for watched in self._watched:
                watched.subscribe(lambda old, new: None, self._turned)
        known = [watched.store for watched in self._watched]
        return [store for store in known if store is not None] if None not in known else ()

    def _turned(self) -> None:
        if self._stores():
            self.forget()
            self._known()

    def _fleet(self, clusters: Store, sets: Store, bindings: Store, scores: Store) -> Fleet:
        bound: dict[str, frozenset[str]] = {}
        for obj in bindings:
            bound[obj.namespace] = bound.get(obj.namespace, frozenset()) | {obj.name}
        return Fleet(
            clusters={name: found for (_, name), found in self._clusters.all(clusters).items()},
            sets={name: found for (_, name), found in self._sets.all(sets).items()},
            bindings=bound,
            scores=self._scores.all(scores),
        )
