"""ServiceImports: merge the ServiceExports of a Service in all clusters (KEP-1645) and publish the result.

Watches  ServiceExports, ServiceImports and Services in all clusters; namespaces and Sources in the source.
Writes   in the source: a derived Service for each exported Service, which is shared as any other; in every
         cluster with its copy: a ServiceImport; conditions of ServiceExports. Nothing if this cluster is only
         the target of a source that may do so: two agents would overwrite each other's objects.
Absent target: its last known exports count, and nothing is written to it. If they are not known because this
agent has not read the target yet, all objects that they may contribute to stay unchanged.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from agent.api.conditions import set_condition, without_condition
from agent.api.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, Kind
from agent.api.names import mcs
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.drivers.driver import LOCAL
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from agent.kube.store import Key, Object
from agent.model.diff import merge_patch, same
from agent.model.namespaces import not_enabled
from agent.model.service import users_selector
from agent.model.serviceexports import HEADLESS
from agent.model.serviceimports import CONDITIONS, Told, derived, exporting, is_ready, service_import, told
from agent.model.sharedcopies import MERGED
from agent.runtime.controller import Controller
from agent.services.imports.gather import Exports, Gathered

Raw = dict[str, Any]
At = tuple[str, str, str]
"""Virtual node (empty: the local cluster), namespace and name of the exported Service."""

SETTLE_SECONDS = 2.0
"""Seconds between the derived Service's address and its ServiceImport, for kube-proxies to program the address.

An earlier call would fail, and hang while it is repeated, because the node's connection tracking keeps its
entry.
"""
AGAIN_SECONDS = 1.0
UNREAD_SECONDS = 10.0
FORBIDDEN_SECONDS = 60.0


class ServiceImportsController(Controller[At]):
    """Reconciles one Service in one cluster that exports or imports it."""

    name = "serviceimports"
    workers = 16

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._exports = Exports(deps, self._changed, self._all)
        self._refused: dict[At, str] = {}
        self._fresh: dict[At, tuple[str, float]] = {}
        """UIDs of derived Services without a ServiceImport, and the time when each was first observed."""
        self._ready: set[str] = set()
        self.watch(self._exports.services, self._service_changed)
        self.watch(deps.namespaces.informer, lambda namespace: ())
        deps.namespaces.on_turn(self._all)
        for informer in (*self._exports.targets.informers, *self._exports.sources.informers):
            self.watch(informer, lambda found: ())
        for informer in self._exports.targets.informers:
            informer.subscribe(self._target_object_changed)
        for informer in self._exports.sources.informers:
            informer.subscribe(self._source_changed)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)

    def lane(self, key: At) -> str:
        """Use one lane per cluster, so that an unresponsive one delays no other."""
        return key[0]

    async def reconcile(self, key: At) -> float | None:
        """Reconcile one Service in one cluster."""
        node, service = key[0], (key[1], key[2])
        if self._exports.is_left_to_a_source(service[0]):
            return None
        target = self._deps.targets.by_node(node) if node != LOCAL else None
        if not self._exports.reads(node) or (node != LOCAL and (target is None or not target.ready)):
            return None
        found, live = self._exports.of(service), self._exports.derived(LOCAL, service)
        if self._is_held(found, live):
            return UNREAD_SECONDS
        again = UNREAD_SECONDS if found.unread else None
        again = (await self._derive(service, found, live) if node == LOCAL else None) or again
        try:
            settles = await self._import(node, service, found)
            await self._tell(node, service, found)
        except Forbidden as error:
            self._blocked(key, str(error))
            return FORBIDDEN_SECONDS
        if refusal := self._exports.refusal(node):
            self._blocked(key, refusal)
        else:
            self._refused.pop(key, None)
        return settles or again

    @staticmethod
    def _is_held(found: Gathered, live: Object | None) -> bool:
        """Return whether all objects stay unchanged because a cluster that may export the Service has not been
        read yet.
        """
        if LOCAL in found.unknown:
            return True
        if live is None or not found.unknown:
            return False
        return found.merged is None or bool(found.unknown & exporting(live.decode()).keys())

    async def _derive(self, key: Key, found: Gathered, live: Object | None) -> float | None:
        """Create, update or delete the derived Service of this cluster. Targets get copies, as of every shared
        Service.
        """
        client = self._deps.local.client
        if found.merged is None:
            await self._withdraw(LOCAL, key)
            if live is not None:
                with contextlib.suppress(NotFound, Conflict):
                    await client.delete(SERVICES, live.name, live.namespace, uid=live.uid)
            return None
        wanted = derived(key, found.merged, found.here, found.there)
        if live is None:
            if not self._waits(key):
                with contextlib.suppress(AlreadyExists):
                    self._exports.services.absorb(await client.create_raw(SERVICES, wanted))
            return None
        now = live.decode()
        if MERGED.must_be_replaced(now, wanted):
            with contextlib.suppress(NotFound, Conflict):
                await client.delete(SERVICES, live.name, live.namespace, uid=live.uid)
            return AGAIN_SECONDS
        if users_selector(now) == wanted["spec"]["selector"]:
            # The controller that reroutes Services switches it if it selects proxy pods.
            wanted["spec"]["selector"] = now["spec"].get("selector") or {}
        if not MERGED.same(now, wanted):
            body = merge_patch(now, MERGED.revised(now, wanted))
            body.setdefault("metadata", {})["resourceVersion"] = live.version
            self._exports.services.absorb(await client.patch_raw(SERVICES, live.name, body, live.namespace))
        return None

    def _waits(self, key: Key) -> str:
        """Return the reason why the derived Service cannot be created; empty if it can."""
        namespace = self._deps.namespaces.get(key[0])
        if namespace is None or namespace.deleting:
            return f"there is no namespace {key[0]} in the cluster of the agent: create it"
        if not self._deps.namespaces.is_in_use(key[0]):
            return not_enabled(key[0])
        name = mcs.derived(key[1])
        taken = self._exports.services.store.get((key[0], name)) is not None
        return f"Service {name} is there and not made for this one: delete it" if taken else ""

    async def _withdraw(self, node: str, key: Key) -> None:
        """Delete a cluster's ServiceImport. In the source it is deleted before the Service, so that its address
        is not used.
        """
        live = self._exports.imported(node, key)
        if live is not None and self._exports.is_ours(live):
            kind = self._exports.served(node, SERVICE_IMPORTS)
            with contextlib.suppress(NotFound, Conflict):
                await self._exports.port(node).delete(kind, live.name, live.namespace, uid=live.uid)

    async def _import(self, node: str, key: Key, found: Gathered) -> float | None:
        live, there = self._exports.imported(node, key), self._exports.derived(node, key)
        port, kind = self._exports.port(node), self._exports.served(node, SERVICE_IMPORTS)
        if found.merged is None and node != LOCAL:
            await self._withdraw(node, key)
        if found.merged is None or there is None or there.deleting or not self._exports.may_import(node):
            self._fresh.pop((node, *key), None)
            return None
        if live is not None and (live.deleting or not self._exports.is_ours(live)):
            return None
        if live is None and found.merged.type != HEADLESS and (settles := self._settles((node, *key), there.uid)) > 0:
            return settles
        wanted = service_import(key[1], found.merged, there.decode(), self._deps.cluster_uid)
        wanted["apiVersion"] = kind.api_version
        if live is None:
            raw = await port.create_raw(kind, wanted)
            self._fresh.pop((node, *key), None)
            live = self._exports.absorb(node, SERVICE_IMPORTS, raw)
        elif not MERGED.same(live.decode(), wanted):
            body = merge_patch(live.decode(), MERGED.revised(live.decode(), wanted))
            raw = await port.patch_raw(kind, live.name, body, live.namespace)
            live = self._exports.absorb(node, SERVICE_IMPORTS, raw)
        if live is not None:
            ready = {"Ready": is_ready(found.merged, there.decode())}
            clusters = [{"cluster": each} for each in sorted(found.merged.clusters)]
            await self._say(node, SERVICE_IMPORTS, live, ready, {"clusters": clusters})
        return None

    def _settles(self, key: At, uid: str) -> float:
        """Return the seconds for which kube-proxies may not have programmed the address of a derived Service yet."""
        now = asyncio.get_running_loop().time()
        known, since = self._fresh.get(key, ("", now))
        if known != uid:
            since = now
        self._fresh[key] = (uid, since)
        return since + SETTLE_SECONDS - now

    async def _tell(self, node: str, key: Key, found: Gathered) -> None:
        """Report the result of an export.

        If this agent does not import the Service, or another implementation's ServiceImport exists, that
        implementation may report as well: then write only in this cluster.
        """
        export, live = self._exports.exported(node, key), self._exports.imported(node, key)
        if export is None or node not in found.exports:
            return
        waits = "" if self._exports.derived(LOCAL, key) is not None else self._waits(key)
        if live is not None and not self._exports.is_ours(live):
            waits = f"ServiceImport {key[1]} is there and made by another implementation: have one of them alone"
        if waits and node != LOCAL:
            return
        if not waits and found.merged is not None and live is None:
            waits = "its ServiceImport is not there yet"
        with contextlib.suppress(NotFound):
            await self._say(node, SERVICE_EXPORTS, export, told(found.exports[node], found.merged, waits), {})

    async def _say(self, node: str, kind: Kind, live: Object, told: Told, more: Raw) -> None:
        """Write the status if it has changed."""
        had = live.decode().get("status") or {}
        conditions = had.get("conditions")
        for type in CONDITIONS - told.keys():
            conditions = without_condition(conditions, type)
        for type, words in told.items():
            conditions = set_condition(conditions, type, *words, self._deps.clock.now())
        new = {"conditions": conditions, **more}
        if not same({field: had.get(field) for field in new}, new):
            port, served = self._exports.port(node), self._exports.served(node, kind)
            raw = await port.patch_raw(served, live.name, {"status": new}, live.namespace, sub="status")
            self._exports.absorb(node, kind, raw)

    def _blocked(self, key: At, error: str) -> None:
        """Emit one event on the derived Service about missing permissions or kinds of a cluster."""
        derived = self._exports.derived(LOCAL, key[1:])
        if derived is not None and self._refused.get(key) != error:
            self._refused[key] = error
            target = self._deps.targets.by_node(key[0])
            where = f"in target {target.title}" if target is not None else "here"
            remedy = "have the CRDs of multicluster.x-k8s.io there, and `flotilla join --allow services,mcs`"
            message = f"Service {'/'.join(key[1:])} is not imported {where}: {error}; {remedy}"
            self._deps.recorder.event(derived.decode(), "Warning", "ImportBlocked", message)

    def _changed(self, key: Key) -> None:
        for node in self._exports.nodes(key[0]):
            self.queue.add((node, *key))

    def _service_changed(self, service: Object) -> Iterable[At]:
        key = self._exports.of_service(service)
        return [(node, *key) for node in self._exports.nodes(key[0])] if key is not None else ()

    def _target_object_changed(self, old: Object | None, new: Object | None) -> None:
        """Requeue when a Target is created or deleted; its content does not matter."""
        found = new or old
        if found is not None and (old is None or new is None):
            self._all(found.namespace)

    def _source_changed(self, old: Object | None, new: Object | None) -> None:
        found = new or old
        if found is not None:
            self._all(found.namespace)

    def _target_changed(self, target: Target) -> None:
        node, was = target.node_name, target.node_name in self._ready
        (self._ready.add if target.ready else self._ready.discard)(node)
        if target.ready and not was:
            self._all(target.namespace)

    def _all(self, namespace: str = "") -> None:
        """Requeue all exported and imported Services, in one or (empty) all namespaces."""
        for key in self._exports.known():
            if namespace in ("", key[0]):
                self._changed(key)

    def _attached(self, target: Target) -> None:
        if not target.is_self:
            self.watch(self._exports.attach(target), self._service_changed, required=False)

    def _detached(self, target: Target) -> None:
        self._exports.detach(target.node_name)
        self._ready.discard(target.node_name)
