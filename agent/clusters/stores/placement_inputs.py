"""Watched inputs of Placements. Each object is decoded once for all that evaluate Placements in this process."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    Kind,
)
from agent.base.listeners import tell
from agent.kube.store import Key, Object
from agent.ranking.placing import read
from agent.ranking.placing.inputs import ManagedCluster, PlacementInputs

if TYPE_CHECKING:
    from agent.clusters.optional_watch import Watched

_READ: Mapping[Kind, Callable[[Mapping[str, Any]], Any]] = {
    MANAGED_CLUSTERS: read.managed_cluster,
    MANAGED_CLUSTER_SETS: read.cluster_set,
    MANAGED_CLUSTER_SET_BINDINGS: read.key,
    ADDON_PLACEMENT_SCORES: read.scores,
}


class Change(NamedTuple):
    """Write of one object, even if its decoded content is unchanged."""

    kind: Kind
    key: Key
    before: Any
    """Decoded content before the write, None if the object did not exist."""
    after: Any


class PlacementInputsCache:
    """ManagedClusters, their sets, bindings and scores, decoded whenever one of them changes."""

    def __init__(self, watch: Callable[[Kind], "Watched"]) -> None:
        self._found: dict[Kind, dict[Key, Any]] = {kind: {} for kind in _READ}
        self._listeners: list[Callable[[Change | None], None]] = []
        self._fleet: PlacementInputs | None = None
        self._bindings: dict[str, frozenset[str]] | None = None
        self._watched = {kind: watch(kind) for kind in _READ}
        for kind, watched in self._watched.items():
            watched.subscribe(functools.partial(self._changed, kind), functools.partial(self._turned, kind))

    def subscribe(self, listener: Callable[[Change | None], None]) -> None:
        """Register a listener: called with every change, and with None when all objects of a kind appear or
        disappear.
        """
        self._listeners.append(listener)

    @property
    def known(self) -> bool:
        """Whether all of these kinds have been read."""
        return all(watched.store is not None for watched in self._watched.values())

    @property
    def fleet(self) -> PlacementInputs:
        """Decoded inputs; the identical object until one of them changes."""
        if self._fleet is None:
            self._fleet = PlacementInputs(
                clusters={name: each for (_, name), each in self._found[MANAGED_CLUSTERS].items()},
                sets={name: each for (_, name), each in self._found[MANAGED_CLUSTER_SETS].items()},
                bindings=self.bindings,
                scores=dict(self._found[ADDON_PLACEMENT_SCORES]),
            )
        return self._fleet

    @property
    def bindings(self) -> Mapping[str, frozenset[str]]:
        """Names of the bound sets by namespace."""
        if self._bindings is None:
            self._bindings = read.bound_sets(self._found[MANAGED_CLUSTER_SET_BINDINGS])
        return self._bindings

    def cluster(self, name: str) -> ManagedCluster | None:
        """Return a decoded ManagedCluster, None if it does not exist."""
        found: ManagedCluster | None = self._found[MANAGED_CLUSTERS].get(("", name))
        return found

    def manifest(self, name: str) -> Object | None:
        """Return a whole ManagedCluster, None if it does not exist."""
        store = self._watched[MANAGED_CLUSTERS].store
        return store.get(("", name)) if store is not None else None

    def sets_of(self, *clusters: ManagedCluster | None) -> frozenset[str]:
        """Return the names of the sets that contain any of these clusters."""
        sets = self._found[MANAGED_CLUSTER_SETS].values()
        return frozenset(each.name for each in sets if any(one is not None and each.has(one) for one in clusters))

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        about = new or old
        assert about is not None
        before = self._found[kind].pop(about.key, None)
        after = _READ[kind](new.decode()) if new is not None else None
        if after is not None:
            self._found[kind][about.key] = after
        if before != after:
            self._forget(kind)
        tell(self._listeners, Change(kind, about.key, before, after))

    def _turned(self, kind: Kind) -> None:
        self._found[kind] = {obj.key: _READ[kind](obj.decode()) for obj in self._watched[kind].store or ()}
        self._forget(kind)
        tell(self._listeners, None)

    def _forget(self, kind: Kind) -> None:
        self._fleet = None
        if kind is MANAGED_CLUSTER_SET_BINDINGS:
            self._bindings = None
