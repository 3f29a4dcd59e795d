"""Slices of gateways: this cluster's gateways make Services of other clusters available in this cluster.

Watches  local GatewayPeers, the slices of the gateways' Service, Services, and slices that this controller has created;
  those of shared Services once affinity asks for it.
Writes   the status of GatewayPeers: local ports of their Services, conditions; EndpointSlices of the local gateways at
  these ports; if enabled, a Service for each host of a headless Service.

An endpoint is ready if a gateway reports that it listens and that the peer answers, unless affinity keeps callers in
this cluster. No target is involved: this continues while a source is away.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition, set_condition
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, NODES, SERVICES
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_PEER
from agent.base.yielding import in_turns
from agent.clusters.deps import Deps
from agent.drivers.sharing import own_slices, slices_by_service, slices_in
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import hostservices, peerports
from agent.model.diff import same
from agent.model.endpoints import count_ready, is_mirror
from agent.model.gatewayaffinity import held_back, own_first
from agent.model.gatewayhosts import EVERY_CALLED
from agent.model.gatewaylink import NO_PORT, is_shared_by, writer
from agent.model.gatewayslices import Pod, connected, slices
from agent.model.peerports import LACKING, Port, Usable
from agent.model.service import is_headless
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding
from agent.runtime.controller import Controller
from agent.services.gateways.hosts import HostServices
from agent.services.gateways.localports import GONE_SECONDS, LocalPorts
from agent.services.gateways.slicewriter import SliceWriter, Writes, writes

Raw = dict[str, Any]

_UNKNOWN_SECONDS, _AT_ONCE = 0.5, 0.01
_NAMESPACE, _PEER = "namespace", "peer"


class GatewaySlicesController(Controller[Key]):
    """Reconciles one GatewayPeer. Ports are allotted one peer at a time; slices are written concurrently."""

    name = "gatewayslices"
    workers = 16

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._gone: dict[tuple[Key, str], float] = {}
        self._peers = deps.local.informer(GATEWAY_PEERS)
        self._ports = LocalPorts(self._peers.store)
        self._peers.subscribe(self._ports.changed)
        self._peers.store.index(_NAMESPACE, lambda peer: (peer.namespace,))
        self._services = deps.local.informer(SERVICES)
        self._hosts = HostServices(deps, self._not_meant)
        own = f"{names.LABEL_SERVICE_NAME}={deps.settings.gateway_service}"
        self._own = deps.local.informer(ENDPOINT_SLICES, deps.home, labels=own)
        made = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
        self._made = deps.local.informer(ENDPOINT_SLICES, labels=made)
        self._made.store.index(_PEER, lambda each: (f"{each.namespace}/{each.labels.get(LABEL_GATEWAY_PEER)}",))
        self._writer = SliceWriter(deps.local.client, self._made)
        self._making_hosts = asyncio.Lock()
        self._own_first = OwnFirst(deps, self._reconsider)
        self.watch(self._peers, lambda peer: (peer.key,))
        self.watch(self._services, lambda service: self._in_namespace(service.namespace))
        self.watch(self._own, lambda slice: self._peers.store.keys())
        self.watch(self._made, lambda slice: ((slice.namespace, slice.labels.get(LABEL_GATEWAY_PEER, "")),))

    async def reconcile(self, key: Key) -> float | None:
        """Update status and slices of one peer."""
        obj = self._peers.store.get(key)
        if obj is None or obj.deleting:
            self._ports.forget(key)
            self._over(key, set())
            await self._writer.apply((slice, None) for slice in self._slices(key))
            await self._hosts.forget(key)
            return None
        try:
            return await self._bring(obj)
        finally:
            self._ports.settle(key)

    async def _bring(self, obj: Object) -> float | None:
        key = obj.key
        pods = self._pods()
        most = max(map(len, pods.values()), default=0)
        peer = obj.decode()
        usable = await self._usable(peer)
        async with self._making_hosts:
            hosts = await self._hosts.make(peer)
        # A GatewayPeer may be 1.5 MiB long: let the event loop do other work in between.
        await asyncio.sleep(0)
        allotted, problem = self._ports.allot(peer, usable.ports, hosts.services, most)
        peer["status"] = {**(peer.get("status") or {}), **allotted}
        await asyncio.sleep(0)
        wanted = {
            each["metadata"]["name"]: each
            for family, found in pods.items()
            for each in (
                *slices(peer, found, family, usable.ports),
                *hostservices.slices(peer, hosts.services, found, family, hosts.addresses),
            )
        }
        every = [pod for found in pods.values() for pod in found]
        held = self._own_first.held_back(peer, wanted)
        todo = writes(self._slices(key), held) if held is not None else Writes([], [])
        # Until these slices are written, callers may be routed to unusable endpoints.
        await self._writer.apply(todo.closing)
        again = await self._status(obj, peer, every, peerports.programmed(problem, usable, hosts.message))
        if held is None:
            return _UNKNOWN_SECONDS
        await self._writer.apply(todo.others)
        return _AT_ONCE if hosts.unfinished else again

    async def _status(self, obj: Object, peer: Raw, pods: list[Pod], programmed: Finding) -> float | None:
        """Write the status; return the seconds until entries of missing gateway pods can be removed."""
        status, now = peer["status"], self._deps.clock.now()
        conditions = (obj.decode().get("status") or {}).get("conditions")
        for type, found in ((PROGRAMMED, programmed), (CONNECTED, connected(peer, pods))):
            conditions = set_condition(conditions, type, found.status, found.reason, found.message, now)
        over, again = self._over(obj.key, set(status.get("gateways") or {}) - {pod.name for pod in pods})
        told = {field: status.get(field) or None for field in EVERY_CALLED}
        new = {**told, "services": told["services"] or [], "conditions": conditions}
        had = {field: (obj.decode().get("status") or {}).get(field) for field in new}
        if over or not same(had, new):
            body = {"status": {**new, **({"gateways": dict.fromkeys(over)} if over else {})}}
            with contextlib.suppress(NotFound):
                raw = await self._deps.local.client.patch_raw(
                    GATEWAY_PEERS, obj.name, body, obj.namespace, sub="status"
                )
                self._peers.absorb(raw)
            self._tell_limits(obj, new["conditions"] or [])
        return again

    def _tell_limits(self, obj: Object, conditions: list[Raw]) -> None:
        """Emit an event if Services exceed a quota of local ports, or gateways that work leave something out.

        A Service may lack a port for a moment: its copy and the GatewayPeer are written one after the other.
        """
        peer = obj.decode()
        before = (peer.get("status") or {}).get("conditions")
        for type, partly in ((PROGRAMMED, ("False", NO_PORT)), (CONNECTED, ("True", CONNECTED))):
            had, said = (find_condition(each, type) or {} for each in (before, conditions))
            message = said.get("message") or ""
            if (
                message
                and not message.startswith(LACKING)
                and (said["status"], said["reason"]) == partly
                and message != had.get("message")
            ):
                self._deps.recorder.event(peer, "Warning", NO_PORT if type == PROGRAMMED else "LeftOut", message)

    def _over(self, key: Key, missing: set[str]) -> tuple[list[str], float | None]:
        """Return the missing pods whose entries can be removed, and the seconds until that holds for the next."""
        now = time.monotonic()
        for each in [each for each in self._gone if each[0] == key and each[1] not in missing]:
            del self._gone[each]
        left = {pod: self._gone.setdefault((key, pod), now) + GONE_SECONDS - now for pod in missing}
        return sorted(pod for pod in left if left[pod] <= 0), min(
            (each for each in left.values() if each > 0), default=None
        )

    async def _usable(self, peer: Raw) -> Usable:
        """Return the ports of Services whose callers may be routed to the peer, and the reasons why others may not."""
        found, left_out, lacking = dict[str, Collection[Port]](), list[str](), list[str]()
        async for name, named in in_turns(tuple(peerports.named(peer).items())):
            problem, ports = self._not_meant(peer, name), frozenset[Port]()
            if not problem:
                service = self._services.store.get((peer["metadata"]["namespace"], name))
                spec = service.decode()["spec"] if service is not None else {}
                if spec.get("type") == "ExternalName":
                    # An ExternalName Service is only a DNS name, so its copies work without any gateway.
                    continue
                problem = _flaw(spec)
                ports = frozenset() if problem else named & peerports.ports_of(spec)
                problem = problem or peerports.missing(named - ports)
            if problem:
                (lacking if ports else left_out).append(f"{name} ({problem})")
            if ports:
                found[name] = ports
        return Usable(found, left_out, lacking)

    def _not_meant(self, peer: Raw, name: str) -> str:
        """Return why a GatewayPeer must not use a Service, empty if it may."""
        service = self._services.store.get((peer["metadata"]["namespace"], name))
        if service is None:
            return "there is none of that name"
        if not is_shared_by(service.labels, writer(peer), self._deps.cluster_uid):
            return "it is not shared by who has written this object"
        return ""

    def _pods(self) -> dict[str, list[Pod]]:
        """Return the local gateway pods by address type, sorted."""
        found = dict[str, set[Pod]]()
        for slice in self._own.store:
            manifest = slice.decode()
            for each in manifest.get("endpoints") or ():
                name = (each.get("targetRef") or {}).get("name")
                if name and each.get("addresses"):
                    ready = (each.get("conditions") or {}).get("ready") is not False
                    found.setdefault(manifest["addressType"], set()).add(Pod(name, each["addresses"][0], ready))
        return {family: sorted(pods) for family, pods in sorted(found.items())}

    def _slices(self, key: Key) -> list[Object]:
        return self._made.store.by_index(_PEER, "/".join(key))

    def _reconsider(self, namespace: str) -> None:
        for key in self._in_namespace(namespace):
            self.queue.add(key)

    def _in_namespace(self, namespace: str) -> Iterable[Key]:
        return [peer.key for peer in self._peers.store.by_index(_NAMESPACE, namespace)]


def _flaw(spec: Raw) -> str:
    if is_headless(spec):
        return "it has no cluster IP, for it is headless here and not there"
    return ""


class OwnFirst:
    """Reads EndpointSlices of shared Services once the first GatewayPeer asks for it: most clusters never do."""

    def __init__(self, deps: Deps, changed: Callable[[str], None]) -> None:
        """:param changed: called with the namespace of a Service that has gained its first or lost its last ready
        endpoint"""
        self._deps = deps
        self._changed = changed
        self._nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self._slices: dict[bool, Informer] = {}

    def held_back(self, peer: Mapping[str, Any], wanted: dict[str, Raw]) -> dict[str, Raw] | None:
        """Return the slices of a peer by name, not ready while callers prefer local endpoints; None until those are
        read."""
        services = own_first(peer)
        if not services:
            return wanted
        slices = self._read(here=writer(peer) == self._deps.cluster_uid)
        if not (slices.synced.is_set() and self._nodes.synced.is_set()):
            return None
        namespace = peer["metadata"]["namespace"]
        return held_back(wanted, {name for name in services if self._ready(own_slices(slices, (namespace, name)))})

    def _read(self, *, here: bool) -> Informer:
        """Watch the slices of Services that this cluster shares, or of copies. Slices carry the labels of their
        Services."""
        if here not in self._slices:
            local = self._deps.local
            copied = names.LABEL_PARENT_CLUSTER_UID
            found = slices_in(self._deps, None) if here else local.informer(ENDPOINT_SLICES, labels=copied)
            self._slices[here] = slices_by_service(found)
            found.subscribe(self._slice_changed)
        return self._slices[here]

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        told = [[each] if each is not None and not is_mirror(each.labels) else [] for each in (old, new)]
        had, has = map(self._ready, told)
        if had != has:
            self._changed((new or old).namespace)  # type: ignore[union-attr]

    def _ready(self, slices: list[Object]) -> bool:
        """Return whether any slice has a ready endpoint outside virtual nodes; other clusters report those
        themselves."""
        away = {obj.name for obj in self._nodes.store}
        return count_ready((each.decode() for each in slices), away) > 0
