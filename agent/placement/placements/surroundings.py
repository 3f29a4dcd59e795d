"""Inputs of evaluations, and the Placements that a changed input affects."""

from collections.abc import Callable, Collection, Iterable, Mapping

from agent.api.kinds import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from agent.clusters.stores.placement_inputs import Change, PlacementInputsCache
from agent.kube.store import Object
from agent.placement.placements.interests import Interests, Key
from agent.ranking.placing.inputs import PlacementInputs


class Surroundings:
    """ManagedClusters, sets, bindings and scores. Calls `concerned` with the Placements that a change affects."""

    def __init__(
        self, watched: PlacementInputsCache, interests: Interests, concerned: Callable[[Iterable[Key]], None]
    ) -> None:
        self._watched = watched
        self._interests = interests
        self._concerned = concerned
        watched.subscribe(self._changed)

    @property
    def known(self) -> bool:
        """True if all inputs have been read."""
        return self._watched.known

    @property
    def fleet(self) -> PlacementInputs:
        """Snapshot of all inputs; the same object until an input changes."""
        return self._watched.fleet

    @property
    def bindings(self) -> Mapping[str, frozenset[str]]:
        """Names of bound sets by namespace."""
        return self._watched.bindings

    def manifests(self, names: Iterable[str]) -> dict[str, Object]:
        """Return the full objects of these ManagedClusters by name."""
        return {name: obj for name in names if (obj := self._watched.manifest(name)) is not None}

    def in_sets_of(self, clusters: Collection[str]) -> frozenset[str]:
        """Return the sets that contain any of these clusters."""
        sets = self.fleet.sets_of
        return frozenset[str]().union(*(sets.get(name, frozenset()) for name in clusters))

    def _changed(self, change: Change | None) -> None:
        self._concerned(self._interests if change is None else self._looking_at(change))

    def _looking_at(self, change: Change) -> Iterable[Key]:
        """Return the Placements that a change may affect."""
        kind, (namespace, name), before, after = change
        interests, bindings, same = self._interests, self.bindings, before == after
        if kind is MANAGED_CLUSTERS:
            sets = self._watched.sets_of(before, after)
            return interests.of_sets(sets, bindings, lambda interest: not same or bool(interest.expressions))
        if same:
            return ()
        if kind is MANAGED_CLUSTER_SETS:
            return interests.of_sets((name,), bindings)
        if kind is MANAGED_CLUSTER_SET_BINDINGS:
            return interests.of_namespace(namespace)
        return interests.of_score(name, self._watched.sets_of(self._watched.cluster(namespace)), bindings)
