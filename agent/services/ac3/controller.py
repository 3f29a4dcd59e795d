"""AC3's networks: create the ServiceLinks of each MultiClusterNetwork and copy their status back.

Watches  MultiClusterNetworks, ServiceLinks, and local Services, Deployments and namespaces.
Writes   ServiceLinks; the sharing annotation on their Services that are not shared yet; finalizer, status and Events of
  MultiClusterNetworks.
No target is involved: ServiceLinks report absent ones. Foreign Services stay in every cluster.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from agent.api.conditions import condition_of
from agent.api.kinds import DEPLOYMENTS, MULTI_CLUSTER_NETWORKS, SERVICE_LINKS, SERVICES
from agent.api.names.ac3 import ANNOTATION_SHARED_FOR, FINALIZER, LABEL_NETWORK_UID
from agent.clusters.deps import Deps
from agent.clusters.optional_watch import Watched
from agent.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from agent.kube.store import Key, Object
from agent.model.ac3 import (
    CONFLICT,
    Plan,
    Told,
    World,
    accepted,
    heard,
    network_of,
    places,
    plan,
    ready,
    sharing,
    status,
)
from agent.model.diff import same
from agent.model.servicelinks import READY, Finding
from agent.runtime.controller import Controller

Raw = dict[str, Any]
Work = tuple[Literal["network", "service"], str, str]
"""Kind of work, namespace and name."""

QUIET_SECONDS = 0.1
"""Seconds in which changes of many ServiceLinks are collected into one status."""
_AGAIN_SECONDS = 5.0
"""Seconds until a re-check of refused or conflicting objects: no event reports that the reason has ended."""


class AC3NetworkController(Controller[Work]):
    """Reconciles one MultiClusterNetwork, or one Service that is or was shared for networks."""

    name = "ac3"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._links = deps.service_links
        self._networks = Watched(deps.local.port, MULTI_CLUSTER_NETWORKS, deps.settings.discovery_interval)
        self._services = deps.local.informer(SERVICES)
        self._deployments = deps.local.informer(DEPLOYMENTS)
        self._named: dict[Key, set[Key]] = {}
        """Deployments that a network names, by network."""
        self._owners: dict[Key, set[Key]] = {}
        """Networks for which the ServiceLinks of a Service were created, by Service."""
        self._crd_has_conditions: bool | None = None
        """Whether the served CRD has conditions; None until that is known."""
        self._said: dict[str, Finding] = {}
        """Message of the last event by UID of a network, if its CRD has no conditions."""
        self._networks.subscribe(self._network_changed, self._turned)
        self._networks.wanted(True)
        self._links.subscribe(self._links_changed)
        self._links.on_rule(lambda service: None, self._turned)
        self.watch(self._services, self._service_changed)
        self.watch(self._deployments, lambda deployment: ())
        self._deployments.subscribe(self._deployment_changed)
        self.watch(deps.namespaces.informer, lambda namespace: ())
        deps.namespaces.informer.subscribe(self._namespace_changed)

    async def reconcile(self, key: Work) -> float | None:
        """Reconcile one network, or the sharing of one Service."""
        # Until all stores are synced, an object missing in them may exist.
        if not self._links.served or self._networks.store is None:
            return None
        kind, namespace, name = key
        await (self._network if kind == "network" else self._service)((namespace, name))
        return None

    async def _network(self, key: Key) -> None:
        assert self._networks.store is not None
        network = self._networks.store.get(key)
        if network is None or network.deleting:
            await self._end(key, network)
            return
        if FINALIZER not in network.finalizers:
            network = await self._finalizers(network, [*network.finalizers, FINALIZER])
        raw = network.decode()
        self._named[key] = places(raw)
        wanted = plan(raw, self._world(self._named[key]), self._deps.settings.ac3_namespace)
        told = await self._carry_out(key, network, wanted)
        await self._tell(network, wanted, told)

    async def _carry_out(self, key: Key, network: Object, wanted: Plan) -> list[Told]:
        """Create and update the network's ServiceLinks one by one, so that a failure stops no other."""
        told = []
        for place, link in wanted.links.items():
            try:
                found = await self._bring(network, link)
            except (Conflict, Invalid) as error:
                problem = Finding("False", "NotMade", str(error))
            except KubeError as error:
                problem = Finding("Unknown", "NotMade", str(error))
                self.queue.add_after(("network", *key), _AGAIN_SECONDS)
            else:
                problem = heard(found, network.uid)
                if problem.reason == CONFLICT:
                    self.queue.add_after(("network", *key), _AGAIN_SECONDS)
            told.append(Told(f"{wanted.fields[place]} {link['spec']['service']}", problem))
        await self._drop(key, set(wanted.links))
        return told

    async def _bring(self, network: Object, wanted: Raw) -> Raw | None:
        """Create or update one ServiceLink and return it; None if its state is not known yet."""
        live = self._links.get((wanted["metadata"]["namespace"], wanted["metadata"]["name"]))
        if live is None:
            with contextlib.suppress(AlreadyExists):
                self._links.absorb(await self._client.create_raw(SERVICE_LINKS, wanted))
            return None
        found = live.decode()
        if live.labels.get(LABEL_NETWORK_UID) != network.uid or same(found.get("spec"), wanted["spec"]):
            return found
        spec = {**dict.fromkeys(found.get("spec") or {}), **wanted["spec"]}
        body = {"metadata": {"resourceVersion": live.version}, "spec": spec}
        self._links.absorb(await self._client.patch_raw(SERVICE_LINKS, live.name, body, live.namespace))
        return None

    async def _drop(self, key: Key, kept: set[Key]) -> bool:
        """Delete the ServiceLinks that a network no longer has; return whether there were any."""
        gone = [link for link in self._made(key) if link.key not in kept]
        for link in gone:
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(SERVICE_LINKS, link.name, link.namespace, uid=link.uid)
        return bool(gone)

    async def _end(self, key: Key, network: Object | None) -> None:
        """Delete the links of a deleted network, then remove the network's finalizer."""
        self._named.pop(key, None)
        left = await self._drop(key, set())
        if network is not None and not left and FINALIZER in network.finalizers:
            with contextlib.suppress(NotFound):
                await self._finalizers(network, [each for each in network.finalizers if each != FINALIZER])

    async def _service(self, key: Key) -> None:
        """Share a Service as long as networks name it."""
        service = self._services.store.get(key)
        if service is None or service.deleting:
            return
        wanted = any(True for link in self._links.of(key) if _owner(link) is not None and not link.deleting)
        if changes := sharing(service.annotations, wanted):
            body = {"metadata": {"annotations": changes, "resourceVersion": service.version}}
            with contextlib.suppress(NotFound):
                self._services.absorb(await self._client.patch_raw(SERVICES, service.name, body, service.namespace))

    async def _tell(self, network: Object, wanted: Plan, told: list[Told]) -> None:
        raw, now = network.decode(), self._deps.clock.now()
        found = ready(wanted.refused, told)
        whole = status(raw, wanted.refused, told, now, has_conditions=True)
        if self._crd_has_conditions is None:
            await self._check_for_conditions(network, whole)
        before = self._before(raw)
        new = (
            whole
            if self._crd_has_conditions is not False
            else status(raw, wanted.refused, told, now, has_conditions=False)
        )
        if not same(raw.get("status"), new):
            raw = await self._write(network, whole)
        if not self._crd_has_conditions:
            self._said[network.uid] = found
        if (found.status, found.reason) == before or (before is None and found.status != "False"):
            return
        well = found.status == "True"
        kind: Literal["Normal", "Warning"] = "Normal" if well else "Warning"
        message = found.message or accepted(wanted.refused).message or "all links are reached"
        self._deps.recorder.event(raw, kind, found.reason, message)

    async def _check_for_conditions(self, network: Object, new: Raw) -> None:
        """Find out whether the CRD can store conditions if its objects have none yet; no write is made only for
        that.
        """
        before = network.decode().get("status") or {}
        if before and "conditions" not in before:
            answer = await self._client.patch_raw(
                MULTI_CLUSTER_NETWORKS, network.name, {"status": new}, network.namespace, sub="status", dry_run=True
            )
            self._crd_has_conditions = _has_conditions(Object(MULTI_CLUSTER_NETWORKS, answer).decode())

    async def _write(self, network: Object, new: Raw) -> Raw:
        body = {"metadata": {"resourceVersion": network.version}, "status": new}
        answer = await self._client.patch_raw(
            MULTI_CLUSTER_NETWORKS, network.name, body, network.namespace, sub="status"
        )
        self._networks.absorb(answer)
        raw = Object(MULTI_CLUSTER_NETWORKS, answer).decode()
        # AC3's own CRD has no conditions, so the API server has dropped them.
        self._crd_has_conditions = _has_conditions(raw)
        return raw

    def _before(self, raw: Raw) -> tuple[str, str] | None:
        """Return the message and reason of the last published status."""
        if not self._crd_has_conditions:
            said = self._said.get(raw["metadata"]["uid"])
            return (said.status, said.reason) if said is not None else None
        found = condition_of(raw, READY)
        return (found["status"], found["reason"]) if found is not None else None

    async def _finalizers(self, network: Object, finalizers: list[str]) -> Object:
        body = {"metadata": {"finalizers": finalizers, "resourceVersion": network.version}}
        answer = await self._client.patch_raw(MULTI_CLUSTER_NETWORKS, network.name, body, network.namespace)
        self._networks.absorb(answer)
        return Object(MULTI_CLUSTER_NETWORKS, answer)

    def _world(self, named: Iterable[Key]) -> World:
        namespaces = (obj.name for obj in self._deps.namespaces.informer.store if not obj.deleting)
        found = {key: self._deployments.store.get(key) for key in named}
        looked = {namespace for namespace, _ in found}
        services: dict[str, list[Raw]] = {}
        for obj in self._services.store if looked else ():
            if obj.namespace in looked and not obj.deleting:
                services.setdefault(obj.namespace, []).append(obj.decode())
        return World(
            frozenset(namespaces), {key: obj.decode() for key, obj in found.items() if obj is not None}, services
        )

    def _made(self, network: Key) -> Iterator[Object]:
        for service in [service for service, owners in self._owners.items() if network in owners]:
            yield from (link for link in self._links.of(service) if _owner(link) == network)

    def _network_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        if new is None:
            self._said.pop(obj.uid, None)
        self.queue.add(("network", *obj.key))

    def _links_changed(self, service: Key) -> None:
        now = {owner for link in self._links.of(service) if (owner := _owner(link)) is not None}
        before = self._owners.pop(service, set())
        if now:
            self._owners[service] = now
        for network in before | now:
            self.queue.add_after(("network", *network), QUIET_SECONDS)
        if bool(before) != bool(now):
            self.queue.add(("service", *service))

    def _service_changed(self, service: Object) -> Iterable[Work]:
        """Return the keys to requeue; called for every local Service, with its state before and after every change."""
        if service.key in self._owners or ANNOTATION_SHARED_FOR in service.annotations:
            yield ("service", *service.key)
        for network, named in self._named.items():
            if any(namespace == service.namespace for namespace, _ in named):
                yield ("network", *network)

    def _deployment_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        naming = [network for network, named in self._named.items() if obj.key in named]
        if naming and (old is None or new is None or _template_labels(old) != _template_labels(new)):
            for network in naming:
                self.queue.add(("network", *network))

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        if (old is None or old.deleting) != (new is None or new.deleting):
            for network in self._networks.store or ():
                self.queue.add_after(("network", *network.key), QUIET_SECONDS)

    def _turned(self) -> None:
        """Requeue after all objects of a kind were read, or the kind is no longer served."""
        self._crd_has_conditions = None
        for network in self._networks.store or ():
            self.queue.add(("network", *network.key))
        for service in self._links.services("") if self._links.served else ():
            self._links_changed(service)
            if service in self._owners:
                self.queue.add(("service", *service))
        for obj in self._services.store:
            if ANNOTATION_SHARED_FOR in obj.annotations:
                self.queue.add(("service", *obj.key))


def _owner(link: Object) -> Key | None:
    """Return the network for which a ServiceLink was created."""
    return network_of(link.decode()) if LABEL_NETWORK_UID in link.labels else None


def _has_conditions(network: Raw) -> bool:
    return "conditions" in (network.get("status") or {})


def _template_labels(deployment: Object) -> object:
    return (deployment.decode()["spec"]["template"].get("metadata") or {}).get("labels")
