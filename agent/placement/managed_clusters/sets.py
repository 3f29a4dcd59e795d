"""Sets of clusters: update conditions of ManagedClusterSets and their bindings, if this agent evaluates Placements.

Watches  ManagedClusterSets, ManagedClusterSetBindings, ManagedClusters.
Writes   the sets `default` and `global` if they are missing; the conditions ClusterSetEmpty of sets and Bound of
         bindings.
"""

import contextlib
from collections.abc import Iterable
from typing import Any

from agent.api.conditions import set_condition
from agent.api.kinds import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS, Kind
from agent.api.names.ocm import DEFAULT_SET, GLOBAL_SET
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.clusters.target_condition import Words
from agent.kube.errors import AlreadyExists, NotFound
from agent.kube.store import Key, Object
from agent.model.diff import same
from agent.ranking.placing import read
from agent.ranking.placing.inputs import ManagedCluster
from agent.runtime.controller import Controller

Raw = dict[str, Any]

ALL: Key = ("", "")
_SELECTORS: dict[str, Raw] = {
    DEFAULT_SET: {"selectorType": "ExclusiveClusterSetLabel"},
    GLOBAL_SET: {"selectorType": "LabelSelector", "labelSelector": {}},
}


class ClusterSetController(Controller[Key]):
    """Controller with the keys of bindings, and of sets with an empty namespace; the key `ALL` queues all of them."""

    name = "clustersets"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._managed = deps.placement.watch(MANAGED_CLUSTERS)
        self._sets = deps.placement.watch(MANAGED_CLUSTER_SETS)
        self._bindings = deps.placement.watch(MANAGED_CLUSTER_SET_BINDINGS)
        self._managed.subscribe(self._cluster_changed, self._look_again)
        self._sets.subscribe(self._set_changed, self._look_again)
        self._bindings.subscribe(self._binding_changed, self._look_again)
        deps.placement.on_turn(self._look_again)

    async def reconcile(self, key: Key) -> float | None:
        """Update the condition of one set or binding; create a missing default set."""
        sets, bindings = self._sets.store, self._bindings.store
        if self._deps.placement.mode != "serve" or sets is None or bindings is None or self._managed.store is None:
            return None
        if key == ALL:
            for each in {*sets.keys(), *bindings.keys(), *(("", name) for name in _SELECTORS)}:
                self.queue.add(each)
            return None
        namespace, name = key
        if namespace:
            await self._bound(bindings.get(key), there=sets.get(("", name)) is not None)
        elif (found := sets.get(key)) is not None:
            await self._counted(found, self._managed.store)
        elif name in _SELECTORS:
            await self._make(name)
        return None

    async def _make(self, name: str) -> None:
        head = {"apiVersion": MANAGED_CLUSTER_SETS.api_version, "kind": MANAGED_CLUSTER_SETS.name}
        manifest = {**head, "metadata": {"name": name}, "spec": {"clusterSelector": _SELECTORS[name]}}
        with contextlib.suppress(AlreadyExists):
            self._sets.absorb(await self._deps.local.client.create_raw(MANAGED_CLUSTER_SETS, manifest))

    async def _counted(self, obj: Object, clusters: Iterable[Object]) -> None:
        chosen = read.cluster_set(obj.decode())
        count = sum(chosen.has(ManagedCluster(each.name, each.labels)) for each in clusters if not each.deleting)
        some = Words("False", "ClustersSelected", f"{count} ManagedClusters selected")
        none = Words("True", "NoClusterMatched", "No ManagedCluster selected")
        await self._say(self._sets, MANAGED_CLUSTER_SETS, obj, "ClusterSetEmpty", some if count else none)

    async def _bound(self, obj: Object | None, *, there: bool) -> None:
        if obj is not None:
            words = Words("True", "ClusterSetBound", "") if there else Words("False", "ClusterSetNotFound", "")
            await self._say(self._bindings, MANAGED_CLUSTER_SET_BINDINGS, obj, "Bound", words)

    async def _say(self, watched: Watched, kind: Kind, obj: Object, condition: str, words: Words) -> None:
        if obj.deleting:
            return
        old = (obj.decode().get("status") or {}).get("conditions")
        new = set_condition(old, condition, *words, self._deps.clock.now())
        if not same(old, new):
            body = {"metadata": {"resourceVersion": obj.version}, "status": {"conditions": new}}
            with contextlib.suppress(NotFound):
                raw = await self._deps.local.client.patch_raw(kind, obj.name, body, obj.namespace, sub="status")
                watched.absorb(raw)

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or old.labels != new.labels or old.deleting != new.deleting:
            for found in self._sets.store or ():
                self.queue.add(found.key)

    def _set_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self.queue.add(obj.key)
        if old is None or new is None:
            for binding in self._bindings.store or ():
                if binding.name == obj.name:
                    self.queue.add(binding.key)

    def _binding_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.queue.add(new.key)

    def _look_again(self) -> None:
        self.queue.add(ALL)
