"""Services that represent hosts of headless Services in other clusters: created and deleted for each GatewayPeer."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from agent.api.kinds import GATEWAY_PEERS, SERVICES
from agent.clusters.deps import Deps
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from agent.kube.store import Key, Object
from agent.model.abridged import abridged
from agent.model.diff import merge_patch
from agent.model.gatewayhosts import HOSTS_LIMIT, SWITCH_ON, names_told, told
from agent.model.hostservices import HostService, host_services, manifest, ports_of
from agent.model.service import is_headless

Raw = dict[str, Any]

PEER_HOSTS_LIMIT = 2_000
"""Most hosts of one GatewayPeer that get a Service. Each Service takes a cluster IP."""
CREATED_AT_ONCE = 50
"""Most new Services in one turn, after which another GatewayPeer has its turn."""
_PEER = "gateway peer"
_SHOWN = 5


class Hosts(NamedTuple):
    """Services for the hosts of a peer."""

    services: Sequence[HostService] = ()
    addresses: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Cluster IPs by name of the Service."""
    left_out: Sequence[str] = ()
    """Hosts and Services that were left out, each with its reason."""
    unfinished: bool = False
    """Whether more Services are yet to be created."""

    @property
    def message(self) -> str:
        """Message about omitted hosts for users; empty if there are none."""
        return f"hosts of headless Services are left out: {abridged(self.left_out, _SHOWN)}" if self.left_out else ""


class HostServices:
    """Services for hosts of headless Services. Unless the setting is on, the headless Services of GatewayPeers are
    ignored."""

    def __init__(self, deps: Deps, flaw: Callable[[Raw, str], str]) -> None:
        """:param flaw: returns why a GatewayPeer must not use a Service, empty if it may"""
        self._deps = deps
        self._flaw = flaw
        self._services = deps.local.informer(SERVICES)
        self._services.store.index(_PEER, _peer_of)

    async def make(self, peer: Raw) -> Hosts:
        """Create, update and delete the Services of a peer's hosts."""
        if not self._deps.settings.gateway_headless:
            remedy = f"it is headless: {SWITCH_ON} where its callers are"
            return Hosts(left_out=[f"{name} ({remedy})" for name in sorted(names_told(peer))])
        flaws = {name: self._flaw_of(peer, name) for name in names_told(peer)}
        left_out = [f"{name} ({problem})" for name, problem in sorted(flaws.items()) if problem]
        for name, more in sorted({each.service: each.left_out for each in told(peer) if each.left_out}.items()):
            left_out.append(f"{name} ({more} of its hosts: {HOSTS_LIMIT} are told of)")
        wanted = host_services(peer, {name for name, problem in flaws.items() if not problem})
        namespace, known = peer["metadata"]["namespace"], self._services.store
        if len(wanted) > PEER_HOSTS_LIMIT:
            # Hosts that already have a Service keep it.
            old = [each for each in wanted if known.get((namespace, each.name)) is not None]
            new = [each for each in wanted if known.get((namespace, each.name)) is None]
            some = new[: max(0, PEER_HOSTS_LIMIT - len(old))]
            left_out.append(f"{len(new) - len(some)} hosts (a GatewayPeer has {PEER_HOSTS_LIMIT} at most)")
            wanted = [*old, *some]
        await self.keep(peer, {each.name for each in wanted})
        return await self._make(peer, wanted, left_out)

    async def _make(self, peer: Raw, wanted: Sequence[HostService], left_out: list[str]) -> Hosts:
        made, addresses, namespace = list[HostService](), dict[str, list[str]](), peer["metadata"]["namespace"]
        created, refused, untried = 0, 0, 0
        for host in wanted:
            is_new = self._services.store.get((namespace, host.name)) is None
            if is_new and (created >= CREATED_AT_ONCE or refused >= CREATED_AT_ONCE):
                untried += 1
                continue
            try:
                addresses[host.name] = await self._made(peer, host)
                made.append(host)
                created += is_new
            except (Forbidden, Invalid, _InTheWay) as error:
                refused += 1
                left_out.append(f"{host.at[1] or host.at[0]} (Service {host.name} cannot be made: {error})")
        if refused >= CREATED_AT_ONCE and untried:
            left_out.append(f"{untried} more, which were not tried")
        return Hosts(made, addresses, left_out, unfinished=untried > 0 and refused < CREATED_AT_ONCE)

    async def keep(self, peer: Raw, wanted: set[str]) -> None:
        """Delete the Services of a peer's hosts except these names."""
        metadata = peer["metadata"]
        for obj in self._services.store.by_index(_PEER, f"{metadata['namespace']}/{metadata['name']}"):
            if obj.name not in wanted or not _is_of(obj, metadata["uid"]):
                await self._delete(obj)

    async def forget(self, key: Key) -> None:
        """Delete the Services of a deleted peer, unless the garbage collector does."""
        if self._deps.settings.gateway_headless:
            for obj in self._services.store.by_index(_PEER, "/".join(key)):
                await self._delete(obj)

    def _flaw_of(self, peer: Raw, name: str) -> str:
        if problem := self._flaw(peer, name):
            return problem
        service = self._services.store.get((peer["metadata"]["namespace"], name))
        found = service is not None and is_headless(service.decode()["spec"])
        return "" if found else "it is not headless here"

    async def _made(self, peer: Raw, host: HostService) -> list[str]:
        """Create or update the Service of a host, and return its cluster IPs."""
        namespace, client = peer["metadata"]["namespace"], self._deps.local.client
        obj = self._services.store.get((namespace, host.name))
        if obj is None or obj.deleting or (_peer_of(obj) and not _is_of(obj, peer["metadata"]["uid"])):
            try:
                self._services.absorb(await client.create_raw(SERVICES, manifest(peer, host)))
            except AlreadyExists as error:
                raise _InTheWay("another one of that name is in the way: delete it") from error
        elif not _peer_of(obj):
            raise _InTheWay("another one of that name is in the way: delete it")
        elif body := _changes(obj, host):
            self._services.absorb(await client.patch_raw(SERVICES, host.name, body, namespace))
        made = self._services.store.get((namespace, host.name))
        return list(made.decode()["spec"].get("clusterIPs") or ()) if made is not None else []

    async def _delete(self, obj: Object) -> None:
        with contextlib.suppress(NotFound, Conflict, Forbidden):
            await self._deps.local.client.delete(SERVICES, obj.name, obj.namespace, uid=obj.uid)


class _InTheWay(KubeError):
    """A foreign Service has the wanted name."""


def _changes(obj: Object, host: HostService) -> Raw:
    """Return the patch that corrects a Service of this agent; empty if it is correct."""
    spec = obj.decode()["spec"]
    had = {field: spec[field] for field in ("ports", "selector") if spec.get(field)}
    return merge_patch({"spec": had}, {"spec": {"ports": ports_of(host)}})


def _peer_of(obj: Object) -> list[str]:
    """Return the GatewayPeer that owns a Service. Labels are no proof, since any user can set them."""
    owner = obj.controller
    return [f"{obj.namespace}/{owner.name}"] if owner is not None and owner.kind == GATEWAY_PEERS.name else []


def _is_of(obj: Object, uid: str) -> bool:
    """Return whether the owner is this GatewayPeer, and not an earlier one of the same name."""
    return obj.controller is not None and obj.controller.uid == uid
