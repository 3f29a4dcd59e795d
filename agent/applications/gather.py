"""Inputs for decisions about P2CodeSchedulingManifests, and the manifests that a changed input affects."""

from collections.abc import Callable, Iterable
from typing import Any

from agent.api.conditions import condition_of
from agent.api.kinds import PLACEMENT_DECISIONS, PLACEMENTS, SCHEDULING_MANIFESTS, TARGET_KINDS
from agent.api.names.links import SERVICES_SHARED
from agent.clusters.deps import Deps
from agent.clusters.managed_cluster import managed_cluster
from agent.clusters.stores.namespaces import turns
from agent.clusters.stores.placement_decisions import owner_in, owner_of, parts_of
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.links import no_gateway
from agent.model.namespaces import is_enabled
from agent.model.p2code.check import World
from agent.model.targetchoice import CLUSTER_TARGET
from agent.ranking.placing.inputs import PlacementInputs

_SETS = "clusters of each set"
_OWNER, _DECIDED = "p2code owner", "p2code decided"


class Surroundings:
    """Placements, decisions, sets, namespaces and Targets.

    Calls `concerned` with the key of a P2CodeSchedulingManifest that a change affects, `everybody` if all may be.
    """

    def __init__(self, deps: Deps, concerned: Callable[[Key], None], everybody: Callable[[], None]) -> None:
        self._concerned = concerned
        self._everybody = everybody
        self._fleet = deps.placement.fleet
        self._namespaces = deps.namespaces.informer
        self._targets = deps.local.either(TARGET_KINDS)
        self._placements = deps.placement.watch(PLACEMENTS)
        self._decisions = deps.placement.watch(PLACEMENT_DECISIONS)
        self._known: object = None
        self._placements.subscribe(self._placement_changed, everybody)
        self._decisions.subscribe(self._decision_changed, everybody)
        self._fleet.subscribe(lambda change: self._look())
        self._namespaces.subscribe(self._namespace_changed)
        for informer in self._targets.informers:
            informer.subscribe(self._target_changed)

    @property
    def informers(self) -> Iterable[Informer]:
        """Informers that have to sync before the first decision."""
        return self._namespaces, *self._targets.informers

    @property
    def known(self) -> bool:
        """True if Placements, decisions and the fleet have been read; False while any is not served."""
        return self._placements.store is not None and self._decisions.store is not None and self._fleet.known

    def world(self, namespace: str) -> World:
        """Return the sets and namespaces that matter to a manifest in a namespace."""
        fleet = self._fleet.fleet
        there = [obj for obj in self._namespaces.store if not obj.deleting]
        return World(
            sets=fleet.once(_SETS, lambda: _sets(fleet)),
            bound=fleet.bindings.get(namespace, frozenset()),
            namespaces={obj.name for obj in there},
            disabled={obj.name for obj in there if not is_enabled(obj.labels)},
        )

    def is_leaving(self, namespace: str) -> bool:
        """Return True if a namespace does not exist or is being deleted."""
        if not namespace or not self._namespaces.synced.is_set():
            return False
        obj = self._namespaces.store.get(("", namespace))
        return obj is None or obj.deleting

    def placements(self, psm: Object, needed: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the Placements of an application, and foreign ones with a needed name, by name."""
        store = self._placements.store
        found = {obj.name: obj for obj in self._placements.find(_OWNER, _made_for, "/".join(psm.key))}
        for name in needed if store is not None else ():
            obj = store.get((psm.namespace, name))  # type: ignore[union-attr]
            if obj is not None:
                found[name] = obj
        return {name: obj.decode() for name, obj in found.items() if not obj.deleting}

    def decisions(self, namespace: str, placements: Iterable[str]) -> dict[str, str]:
        """Return the decided cluster by Placement name; undecided Placements are left out."""
        found = {}
        for name in placements:
            parts = parts_of(self._decisions, owner_of((namespace, name)))
            clusters = [each.cluster for part in parts for each in part.decided]
            if clusters:
                found[name] = min(clusters)
        return found

    def target(self, namespace: str, cluster: str) -> str:
        """Return the Target for a ManagedCluster as annotations in a namespace name it; empty if none exists."""
        obj = self.leading(namespace, cluster)
        if obj is None or obj.namespace:
            return obj.name if obj is not None else ""
        own = {each.name for each in self._serving(namespace) if each.namespace}
        return CLUSTER_TARGET + obj.name if obj.name in own else obj.name

    def leading(self, namespace: str, cluster: str) -> Object | None:
        """Return the Target of a namespace for a ManagedCluster, or else the ClusterTarget."""
        leading = (obj for obj in self._serving(namespace) if managed_cluster(obj) == cluster)
        return min(leading, key=lambda obj: (not obj.namespace, obj.name), default=None)

    def _serving(self, namespace: str) -> list[Object]:
        return [obj for obj in self._targets.serving(namespace) if not obj.deleting]

    def absorb(self, raw: bytes) -> None:
        """Store a Placement from the response to the agent's own write."""
        self._placements.absorb(raw)

    def _placement_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            owner = _owner(obj) if obj is not None else None
            if owner is not None:
                self._concerned(owner)

    def _decision_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            of = owner_in(obj) if obj is not None else None
            for placement in self._placements.find(_DECIDED, _decided, "/".join(of)) if of is not None else ():
                owner = _owner(placement)
                if owner is not None:
                    self._concerned(owner)

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        if (old is None or old.deleting) != (new is None or new.deleting) or turns(old, new):
            self._everybody()

    def _target_changed(self, old: Object | None, new: Object | None) -> None:
        if _leads(old) != _leads(new):
            self._everybody()

    def _look(self) -> None:
        """Call `everybody` if members of sets or bindings changed; labels and scores change too often for that."""
        fleet = self._fleet.fleet
        now = (fleet.once(_SETS, lambda: _sets(fleet)), dict(fleet.bindings), self._fleet.known)
        if now != self._known:
            self._known = now
            self._everybody()


def _sets(fleet: PlacementInputs) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {name: set() for name in fleet.sets}
    for cluster, sets in fleet.sets_of.items():
        for name in sets:
            found[name].add(cluster)
    return {name: frozenset(clusters) for name, clusters in found.items()}


def _leads(target: Object | None) -> object:
    """Return the relevant state of a Target: its ManagedCluster, and how its Services are reached. None if deleted."""
    if target is None or target.deleting:
        return None
    manifest = target.decode()
    said = condition_of(manifest, SERVICES_SHARED) or {}
    return managed_cluster(target), said.get("status"), said.get("reason"), no_gateway(manifest)


def _owner(placement: Object) -> Key | None:
    """Return the key of the P2CodeSchedulingManifest that controls a Placement; None if another object does."""
    owner = placement.controller
    if owner is None or owner.kind != SCHEDULING_MANIFESTS.name:
        return None
    return placement.namespace, owner.name


def _made_for(placement: Object) -> Iterable[str]:
    owner = _owner(placement)
    return ("/".join(owner),) if owner is not None else ()


def _decided(placement: Object) -> Iterable[str]:
    return ("/".join(owner_of(placement.key)),)
