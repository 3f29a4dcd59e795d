"""Slices of gateways: Services of other clusters are reached here through this cluster's own gateways.

Watches  GatewayPeers here, the slices of the gateways' Service, Services, and slices that this room has made; those of
         shared Services once affinity asks for it.
Writes   the status of GatewayPeers: which ports stand for their Services, conditions; EndpointSlices of the own
         gateways at these ports, ready where a gateway has said that it listens and that the peer answers it, and
         affinity does not have callers stay in this cluster; where that is asked for, a Service for each host of a
         headless Service.
Absent target: nothing here concerns any: this goes on while a source is away.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from agent.api import names
from agent.api.conditions import set_condition
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, SERVICES
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_PEER
from agent.clusters.deps import Deps
from agent.controllers.gateways.hosts import Hosts, HostServices
from agent.controllers.gateways.ownfirst import OwnFirst
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from agent.kube.store import Key, Object
from agent.model import hostservices
from agent.model.abridged import abridged
from agent.model.diff import merge_patch, same
from agent.model.gatewayhosts import EVERY_CALLED, every_local
from agent.model.gatewaylink import called, is_shared_by, writer
from agent.model.gatewayslices import Pod, connected, slices
from agent.model.service import is_headless
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding
from agent.runtime.controller import Controller

Raw = dict[str, Any]

GONE_SECONDS = 30.0
"""What a gateway pod has said is kept so long after it was seen last: it may only just have started."""
_UNKNOWN_SECONDS = 0.5
_NAMESPACE, _PEER = "namespace", "peer"
_SHOWN = 5


class GatewaySlicesRoom(Controller[Key]):
    """Keys are those of GatewayPeers. There is one worker: ports are allotted one after the other."""

    name = "gatewayslices"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._ports: dict[Key, tuple[str, frozenset[int]]] = {}
        self._gone: dict[tuple[Key, str], float] = {}
        self._freed: dict[int, float] = {}
        self._holders: Counter[int] = Counter()
        """How many peers have a local port: more than one only where somebody else has written that."""
        self._peers = deps.local.informer(GATEWAY_PEERS)
        self._peers.subscribe(self._peer_changed)
        self._peers.store.index(_NAMESPACE, lambda peer: (peer.namespace,))
        self._services = deps.local.informer(SERVICES)
        self._hosts = HostServices(deps, self._not_meant)
        own = f"{names.LABEL_SERVICE_NAME}={deps.settings.gateway_service}"
        self._own = deps.local.informer(ENDPOINT_SLICES, deps.home, labels=own)
        made = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
        self._made = deps.local.informer(ENDPOINT_SLICES, labels=made)
        self._made.store.index(_PEER, lambda each: (f"{each.namespace}/{each.labels.get(LABEL_GATEWAY_PEER)}",))
        self._own_first = OwnFirst(deps, self._reconsider)
        self.watch(self._peers, lambda peer: (peer.key,))
        self.watch(self._services, lambda service: self._in_namespace(service.namespace))
        self.watch(self._own, lambda slice: self._peers.store.keys())
        self.watch(self._made, lambda slice: ((slice.namespace, slice.labels.get(LABEL_GATEWAY_PEER, "")),))

    async def reconcile(self, key: Key) -> float | None:
        """Bring status and slices of one peer in line."""
        obj = self._peers.store.get(key)
        if obj is None or obj.deleting:
            self._ports.pop(key, None)
            self._over(key, set())
            for slice in self._slices(key):
                await self._delete(slice)
            await self._hosts.forget(key)
            return None
        pods = self._pods()
        most = max(map(len, pods.values()), default=0)
        peer = obj.decode()
        services, left_out = self._usable(peer)
        hosts = await self._hosts.make(peer)
        allotted, problem = self._allot(peer, hosts, most)
        peer["status"] = {**(peer.get("status") or {}), **allotted}
        wanted = {
            each["metadata"]["name"]: each
            for family, found in pods.items()
            for each in (
                *slices(peer, found, family, services),
                *hostservices.slices(peer, hosts.services, found, family, hosts.addresses),
            )
        }
        every = [pod for found in pods.values() for pod in found]
        again = await self._status(obj, peer, every, self._programmed(problem, left_out, hosts.message))
        if (held := self._own_first.held_back(peer, wanted)) is None:
            return _UNKNOWN_SECONDS
        await self._make(key, held)
        return again

    async def _status(self, obj: Object, peer: Raw, pods: list[Pod], programmed: Finding) -> float | None:
        """Write the status; returns when to look again for what gateway pods that are gone have said."""
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
        return again

    def _over(self, key: Key, missing: set[str]) -> tuple[list[str], float | None]:
        """Pods that are gone for good, and when that is known of the others that are missing."""
        now = time.monotonic()
        for each in [each for each in self._gone if each[0] == key and each[1] not in missing]:
            del self._gone[each]
        left = {pod: self._gone.setdefault((key, pod), now) + GONE_SECONDS - now for pod in missing}
        return sorted(pod for pod in left if left[pod] <= 0), min(
            (each for each in left.values() if each > 0), default=None
        )

    def _programmed(self, problem: str, left_out: list[str], of_hosts: str) -> Finding:
        if problem:
            return Finding("False", "NoPort", problem)
        if left_out:
            return Finding("False", "NoService", f"Services that cannot be called: {abridged(left_out, _SHOWN)}")
        return Finding("True", PROGRAMMED, of_hosts)

    def _usable(self, peer: Raw) -> tuple[set[str], list[str]]:
        """Services of the peer whose callers may be sent there, and why others may not."""
        found, left_out = set[str](), list[str]()
        for name in dict.fromkeys(each["name"] for _, each in called(peer)):
            problem = self._flaw(peer, name)
            if problem:
                left_out.append(f"{name} ({problem})")
            else:
                found.add(name)
        return found, left_out

    def _flaw(self, peer: Raw, name: str) -> str:
        if problem := self._not_meant(peer, name):
            return problem
        service = self._services.store.get((peer["metadata"]["namespace"], name))
        spec = service.decode()["spec"] if service is not None else {}
        if is_headless(spec):
            return "it has no cluster IP, for it is headless here and not there"
        return "it has no cluster IP" if spec.get("type") == "ExternalName" else ""

    def _not_meant(self, peer: Raw, name: str) -> str:
        """Why a Service is none that a GatewayPeer is about, empty where it is one."""
        service = self._services.store.get((peer["metadata"]["namespace"], name))
        if service is None:
            return "there is none of that name"
        if not is_shared_by(service.labels, writer(peer), self._deps.cluster_uid):
            return "it is not shared by who has written this object"
        return ""

    def _peer_changed(self, old: Object | None, new: Object | None) -> None:
        """Ports are free again only after a while: what gateway pods have said of them would count for others."""
        ports = [every_local(each.decode()) if each is not None else set[int]() for each in (old, new)]
        self._freed.update(dict.fromkeys(ports[0] - ports[1], time.monotonic()))
        self._holders.subtract(ports[0])
        self._holders.update(ports[1])

    def _allot(self, peer: Raw, hosts: Hosts, most: int) -> tuple[Raw, str]:
        """Local ports of a peer, and why there are not enough; only for new ones those of all others are looked up."""
        own = every_local(peer)
        shared = {port for port in own if self._holders[port] > 1}
        kept, problem = hostservices.allot_all(peer, hosts.services, shared, most)
        if not problem and every_local({"status": kept}) <= own:
            return kept, ""
        metadata = peer["metadata"]
        taken = self._taken((metadata["namespace"], metadata["name"]))
        return hostservices.allot_all(peer, hosts.services, taken, most)

    def _taken(self, but: Key) -> set[int]:
        """Local ports of all peers but one, and those that were free only just now."""
        self._freed = {port: at for port, at in self._freed.items() if at > time.monotonic() - GONE_SECONDS}
        own = self._peers.store.get(but)
        taken = self._freed.keys() - (every_local(own.decode()) if own is not None else set())
        for obj in self._peers.store:
            if obj.key == but:
                continue
            version, ports = self._ports.get(obj.key, ("", frozenset[int]()))
            if version != obj.version:
                ports = frozenset(every_local(obj.decode()))
                self._ports[obj.key] = (obj.version, ports)
            taken |= ports
        return taken

    def _pods(self) -> dict[str, list[Pod]]:
        """Those of the own gateways by address type, sorted."""
        found = dict[str, set[Pod]]()
        for slice in self._own.store:
            manifest = slice.decode()
            for each in manifest.get("endpoints") or ():
                name = (each.get("targetRef") or {}).get("name")
                if name and each.get("addresses"):
                    ready = (each.get("conditions") or {}).get("ready") is not False
                    found.setdefault(manifest["addressType"], set()).add(Pod(name, each["addresses"][0], ready))
        return {family: sorted(pods) for family, pods in sorted(found.items())}

    async def _make(self, key: Key, wanted: dict[str, Raw]) -> None:
        client, existing = self._deps.local.client, {obj.name: obj for obj in self._slices(key)}
        for name, obj in existing.items():
            if name not in wanted:
                await self._delete(obj)
        for name, manifest in wanted.items():
            if name not in existing:
                with contextlib.suppress(AlreadyExists):
                    self._made.absorb(await client.create_raw(ENDPOINT_SLICES, manifest))
                continue
            found = existing[name].decode()
            old, new = ({field: each.get(field) for field in ("ports", "endpoints")} for each in (found, manifest))
            body = merge_patch(old, new)
            if body:
                with contextlib.suppress(NotFound):
                    self._made.absorb(await client.patch_raw(ENDPOINT_SLICES, name, body, key[0]))

    async def _delete(self, slice: Object) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self._deps.local.client.delete(ENDPOINT_SLICES, slice.name, slice.namespace, uid=slice.uid)

    def _slices(self, key: Key) -> list[Object]:
        return self._made.store.by_index(_PEER, "/".join(key))

    def _reconsider(self, namespace: str) -> None:
        for key in self._in_namespace(namespace):
            self.queue.add(key)

    def _in_namespace(self, namespace: str) -> Iterable[Key]:
        return [peer.key for peer in self._peers.store.by_index(_NAMESPACE, namespace)]
