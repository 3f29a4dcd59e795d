"""What Placements are evaluated over, kept up to date, and whom a change of it concerns."""

from collections.abc import Callable, Collection, Iterable

from agent.api.kinds import ADDON_PLACEMENT_SCORES, MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from agent.clusters.placement_mode import PlacementMode
from agent.controllers.placement.interests import Interests, Key
from agent.kube.store import Object
from agent.scheduling.placing import read
from agent.scheduling.placing.inputs import ClusterSet, Fleet, ManagedCluster, Score

Name = str


class Surroundings:
    """ManagedClusters, sets, bindings and scores; `concerned` is called with Placements for which some have changed."""

    def __init__(self, mode: PlacementMode, interests: Interests, concerned: Callable[[Iterable[Key]], None]) -> None:
        self._interests = interests
        self._concerned = concerned
        self._clusters: dict[Name, ManagedCluster] = {}
        self._sets: dict[Name, ClusterSet] = {}
        self._bindings: dict[str, frozenset[Name]] = {}
        self._scores: dict[tuple[Name, Name], dict[str, Score]] = {}
        self._fleet: Fleet | None = None
        kinds = {
            MANAGED_CLUSTERS: self._cluster_changed,
            MANAGED_CLUSTER_SETS: self._set_changed,
            MANAGED_CLUSTER_SET_BINDINGS: self._binding_changed,
            ADDON_PLACEMENT_SCORES: self._score_changed,
        }
        self._watched = {kind: mode.watch(kind) for kind in kinds}
        for kind, changed in kinds.items():
            self._watched[kind].subscribe(changed, self._turn)

    @property
    def known(self) -> bool:
        """Whether all of it has been read."""
        return all(watched.store is not None for watched in self._watched.values())

    @property
    def fleet(self) -> Fleet:
        """All of it, as long as nothing changes."""
        if self._fleet is None:
            self._fleet = Fleet(self._clusters, self._sets, self._bindings, self._scores)
        return self._fleet

    def manifests(self, names: Iterable[Name]) -> dict[Name, Object]:
        """These ManagedClusters as a whole."""
        store = self._watched[MANAGED_CLUSTERS].store
        return {name: obj for name in names if store is not None and (obj := store.get(("", name))) is not None}

    def in_sets_of(self, clusters: Collection[Name]) -> frozenset[Name]:
        """The sets that any of these clusters is in."""
        sets = self.fleet.sets_of
        return frozenset[Name]().union(*(sets.get(name, frozenset()) for name in clusters))

    @property
    def bindings(self) -> dict[str, frozenset[Name]]:
        """Namespace to the sets that are bound to it."""
        return self._bindings

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        name = _name(old, new)
        before = self._clusters.pop(name, None)
        after = read.managed_cluster(new.decode()) if new is not None else None
        if after is not None:
            self._clusters[name] = after
        self._fleet = self._fleet if before == after else None
        sets = {each.name for each in self._sets.values() for one in (before, after) if one and each.has(one)}
        same = before == after
        self._concerned(
            self._interests.of_sets(sets, self._bindings, lambda interest: not same or bool(interest.expressions))
        )

    def _set_changed(self, old: Object | None, new: Object | None) -> None:
        name = _name(old, new)
        before = self._sets.pop(name, None)
        after = read.cluster_set(new.decode()) if new is not None else None
        if after is not None:
            self._sets[name] = after
        if before != after:
            self._fleet = None
            self._concerned(self._interests.of_sets((name,), self._bindings))

    def _binding_changed(self, old: Object | None, new: Object | None) -> None:
        about = new or old
        assert about is not None
        namespace, name = about.key
        before = self._bindings.get(namespace, frozenset())
        after = before | {name} if new is not None else before - {name}
        if before == after:
            return
        if after:
            self._bindings[namespace] = after
        else:
            del self._bindings[namespace]
        self._fleet = None
        self._concerned(self._interests.of_namespace(namespace))

    def _score_changed(self, old: Object | None, new: Object | None) -> None:
        about = new or old
        assert about is not None
        before = self._scores.pop(about.key, None)
        after = read.scores(new.decode()) if new is not None else None
        if after is not None:
            self._scores[about.key] = after
        if before != after:
            self._fleet = None
            cluster = self._clusters.get(about.namespace)
            sets = {each.name for each in self._sets.values() if cluster is not None and each.has(cluster)}
            self._concerned(self._interests.of_score(about.name, sets, self._bindings))

    def _turn(self) -> None:
        """Some kind came or went: what is known of it is read again from the beginning."""
        self._fleet = None
        known = {kind: tuple(watched.store or ()) for kind, watched in self._watched.items()}
        self._clusters = {obj.name: read.managed_cluster(obj.decode()) for obj in known[MANAGED_CLUSTERS]}
        self._sets = {obj.name: read.cluster_set(obj.decode()) for obj in known[MANAGED_CLUSTER_SETS]}
        self._scores = {obj.key: read.scores(obj.decode()) for obj in known[ADDON_PLACEMENT_SCORES]}
        self._bindings = {}
        for obj in known[MANAGED_CLUSTER_SET_BINDINGS]:
            self._bindings[obj.namespace] = self._bindings.get(obj.namespace, frozenset()) | {obj.name}
        self._concerned(self._interests)


def _name(old: Object | None, new: Object | None) -> Name:
    about = new or old
    assert about is not None
    return about.name
