"""Driver `endpointslices`: for flat pod networks, mirrors the EndpointSlices of each cluster in the other clusters."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import ClassVar, NamedTuple

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES
from agent.api.names.links import BY_GATEWAY, LOCAL_FIRST
from agent.clusters.rights import missing, words
from agent.clusters.target import Target
from agent.drivers.driver import BY_ADDRESSES, LOCAL, Pair, Place
from agent.drivers.handover import LOOK_SECONDS, Handover, HandoverStage, Route, follows, leads_by_gateway, may_stay
from agent.drivers.mirrors import Action, Change, Create, Delete, Origin, decide
from agent.drivers.sharing import Sharing
from agent.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from agent.kube.store import Key, Object
from agent.model.endpoints import Shelf, count_ready, is_mirror, outside, ready
from agent.model.podranges import ANYWHERE, PodRanges, shown
from agent.model.servicelinks import PROGRAMMED, Finding

VERBS = ("list", "watch", "create", "patch", "delete")


class EndpointSlices:
    """Reads every cluster's own slices of a shared Service, and mirrors them in the other clusters."""

    name: ClassVar[str] = names.ENDPOINT_SLICES_DRIVER
    reason: ClassVar[str] = BY_ADDRESSES
    tells_sources: ClassVar[bool] = True
    asks: ClassVar[bool] = False

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._deps = sharing.deps
        self._settled: dict[tuple[str, str, str], object] = {}
        self._handover = Handover()
        self._to_native = Handover()

    def detect(self, pair: Pair) -> bool:
        """Return whether the two clusters reach each other's pod addresses. Every cluster has EndpointSlices."""
        return pair.flat

    async def status(self, target: Target) -> str:
        """Return the problem if the target denies reading and writing its slices; else empty."""
        return words(target, ENDPOINT_SLICES, await missing(target, ENDPOINT_SLICES, VERBS))

    async def export(self, place: Place) -> None:
        """Do nothing: the agent reads slices directly in each cluster."""

    async def import_(self, place: Place) -> float | None:
        """Bring the mirrors in a cluster in line with the slices of the other clusters."""
        if place.node == LOCAL and self._sharing.is_native(place.service):
            sources, kept = list[_Source](), [*self._until_native(place), *self._kept(place)]
        else:
            sources = [self._source(node, place) for node in self._linked(place, offering=True)]
            kept = self._kept(place)
        await self._make(place, [*sources, *kept])
        later = [each.silent_in for each in sources if each.silent_in]
        return min([*later, LOOK_SECONDS] if kept else later, default=None)

    async def offered(self, place: Place) -> Finding:
        """Return Programmed: the agent reads slices directly in each cluster."""
        return Finding("True", PROGRAMMED)

    async def connected(self, place: Place, source: str) -> Finding:
        """Return the measured reachability of pods."""
        return self._sharing.measured(place.node, source)

    async def teardown(self, place: Place) -> float | None:
        """Delete this driver's mirrors in a cluster, except during a handover to another driver."""
        kept = self._kept(place) if self._sharing.is_shared(place.service) else []
        await self._make(place, kept)
        return LOOK_SECONDS if kept else None

    def forget_service(self, node: str, service: Key) -> None:
        """Drop cached writes for a Service that may no longer exist."""
        self._settled.pop((node, *service), None)

    def forget_cluster(self, node: str) -> None:
        """Drop cached writes of a cluster: they may no longer exist."""
        for key in [key for key in self._settled if key[0] == node]:
            del self._settled[key]

    async def _make(self, place: Place, sources: list["_Source"]) -> None:
        key = (place.node, *place.service)
        if self._settled.get(key) == (before := self._seen(place, sources)):
            return
        existing = {obj.name: obj for obj in self._mirrors(place)}
        origins = {
            each.origin: Origin(
                None if each.slices is None else [obj.decode() for obj in each.slices],
                each.silent,
                each.ranges,
                each.ports,
                each.labels,
                each.origin == self._sharing.origin(place.node),
            )
            for each in sources
        }
        self._tell_outside(place, origins)
        away = self._sharing.away
        found = {name: obj.decode() for name, obj in existing.items()}
        standby = self._is_standby(place, away)
        for action in decide(self._shelf(place), origins, found, away, standby=standby):
            await self._apply(place, action)
            before = None
        self._settled[key] = before if before is not None else self._seen(place, sources)

    def _tell_outside(self, place: Place, origins: Mapping[str, Origin]) -> None:
        for name, each in origins.items():
            found = [address for slice in each.slices or () for address in outside(slice, each.ranges)]
            service = self._sharing.services.store.get(place.service)
            if found and service is not None:
                if each.ranges.excluded:
                    left = f"addresses of this cluster's pods, which others have there, are left out: {shown(found)}"
                    remedy = "give the Service a selector for these pods"
                else:
                    left = f"addresses outside spec.podCIDRs of Target {name} are left out: {shown(found)}"
                    remedy = "add the range there if it is right"
                self._deps.recorder.event(service.decode(), "Warning", "EndpointsBlocked", f"{left}; {remedy}")

    def _seen(self, place: Place, sources: list["_Source"]) -> object:
        """Everything that the mirrors depend on, and they themselves, by their versions."""
        mirrors = frozenset((obj.name, obj.version) for obj in self._mirrors(place))
        own: frozenset[tuple[str, str]] | None = None
        if self._sharing.rule(place.service).affinity == LOCAL_FIRST:
            own = frozenset((obj.name, obj.version) for obj in self._own(place))
        return (place.uid, tuple(each.seen for each in sources), mirrors, own)

    def _is_standby(self, place: Place, away: Collection[str]) -> bool:
        """Return whether endpoints of other clusters stay in reserve, because the cluster has a ready one itself."""
        own = (obj.decode() for obj in self._own(place))
        return self._sharing.rule(place.service).affinity == LOCAL_FIRST and count_ready(own, away) > 0

    def _own(self, place: Place) -> list[Object]:
        return self._sharing.own_slices(place.node, place.service)

    def _mirrors(self, place: Place) -> list[Object]:
        return [obj for obj in self._sharing.slices(place.node, place.service) if is_mirror(obj.labels)]

    def _shelf(self, place: Place) -> Shelf:
        label = (names.LABEL_PARENT_CLUSTER_UID, self._deps.cluster_uid) if place.node else (names.LABEL_GLOBAL, "true")
        return Shelf(place.service[0], place.service[1], place.uid, (label,))

    def _linked(self, place: Place, *, offering: bool = False) -> list[str]:
        """Return the clusters whose endpoints this driver imports; for callers of other namespaces also the cluster
        itself.

        :param offering: True omits clusters that are known to have no endpoints
        """
        service = self._sharing.original(place.service)
        elsewhere = place.service[0] if service != place.service else ""
        if elsewhere and not (self._sharing.is_shared(service) and self._deps.settings.link_namespaces):
            return []
        others = [node for node in self._others(service) if not offering or self._sharing.may_offer(node, service)]
        hosts = self._sharing.hosts(service)
        if hosts is not None:
            others = [node for node in others if node in hosts.clusters]
        own = bool(elsewhere) or hosts is not None
        leading = (self.reason, BY_GATEWAY) if elsewhere else (self.reason,)
        paired = [
            node
            for node in others
            if (own and node == place.node) or self._sharing.driver(place.node, node, service) in leading
        ]
        rule, consumer = self._sharing.rule(service), self._sharing.called(place.node)
        return [
            node
            for node in paired
            if (node == LOCAL or self._has_copy(node, service) or not self._sharing.is_synced(node))
            and rule.allows(self._sharing.called(node), consumer, elsewhere)
        ]

    def _has_copy(self, node: str, service: Key) -> bool:
        """Return whether a cluster has a copy of a Service and represents all Targets with the same copy."""
        place = self._sharing.place(node, service)
        return place is not None and self._sharing.stands_for(place)

    def _others(self, service: Key) -> list[str]:
        """Return all clusters that may have endpoints of a Service."""
        return [LOCAL, *(() if self._sharing.is_at_home(service) else self._sharing.serving(service[0]))]

    def _kept(self, place: Place) -> list["_Source"]:
        """Return clusters whose endpoints this driver imported, while their new driver does not route traffic yet."""
        found, now = list[_Source](), asyncio.get_running_loop().time()
        rule, names_of = self._sharing.rule(place.service), self._sharing.called(place.node)
        told = {obj.labels.get(names.LABEL_ORIGIN) for obj in self._mirrors(place)}
        if place.node == LOCAL and self._sharing.is_native(place.service):
            # Proxy pods lose their addresses at once, and mirrors replace them.
            own = (obj.decode().get("endpoints") or () for obj in self._own(place))
            told |= {self._sharing.origin(each.get("nodeName") or "") for endpoints in own for each in endpoints}
        for node in self._others(place.service) if self._sharing.original(place.service) == place.service else ():
            route = Route(place.node, node, place.service)
            if (
                self._sharing.origin(node) not in told
                or not follows(self._sharing.driver(*route), self.reason)
                or not may_stay(self._sharing, route)
                or not rule.allows(self._sharing.called(node), names_of)
            ):
                self._handover.end(route)
            elif (
                self._handover.stage(route, now, new_leads=leads_by_gateway(self._sharing, route)) is HandoverStage.KEEP
            ):
                found.append(self._source(node, place))
        return found

    def _until_native(self, place: Place) -> list["_Source"]:
        """Return the clusters whose mirrors stay in the source until its own slices have each of their ready endpoints.

        A Service that was rerouted gets its selector back first. Mirrors whose addresses lead elsewhere go at once.
        """
        found, now = list[_Source](), asyncio.get_running_loop().time()
        mirrors = self._mirrors(place)
        native = _addresses(self._own(place)) if mirrors else set[str]()
        for node in self._others(place.service):
            route, origin = Route(place.node, node, place.service), self._sharing.origin(node)
            told = [obj for obj in mirrors if obj.labels.get(names.LABEL_ORIGIN) == origin]
            by_addresses = self._sharing.driver(*route) == self.reason
            if not told or not by_addresses or not may_stay(self._sharing, route):
                self._to_native.end(route)
            elif self._to_native.stage(route, now, new_leads=_addresses(told) <= native) is HandoverStage.KEEP:
                found.append(self._source(node, place))
        return found

    def _source(self, node: str, place: Place) -> "_Source":
        silent_in = self._sharing.silent_in(node)
        slices = None
        service = self._sharing.original(place.service)
        if service != place.service and self._sharing.driver(place.node, node, service) == BY_GATEWAY:
            # The cluster's own agent keeps these slices as its gateways report.
            slices, ports = self._sharing.gateway_slices(place.node, service, node), self._sharing.ports(place, node)
            return _Source(self._sharing.origin(node), slices, None, ANYWHERE, ports)
        if self._sharing.is_synced(node, service[0]):
            slices = self._sharing.own_slices(node, service)
        target = self._deps.targets.by_node(node) if node != LOCAL else None
        ranges, ports = target.ranges if target is not None else ANYWHERE, self._sharing.ports(place, node)
        if node == LOCAL and place.node != LOCAL and self._sharing.has_by_hand(service):
            hidden = self._sharing.hidden_from(place.node)
            ranges, slices = PodRanges(excluded=hidden or ()), slices if hidden is not None else None
        hosts = self._sharing.hosts(service)
        if hosts is not None and node in hosts.clusters:
            ports = self._sharing.exported_ports(service, node, ports)
            slices = self._sharing.host_slices(node, (service[0], hosts.service))
            return _Source(self._sharing.origin(node), slices, silent_in, ranges, ports, hosts.labels(node))
        return _Source(self._sharing.origin(node), slices, silent_in, ranges, ports)

    async def _apply(self, place: Place, action: Action) -> None:
        port, informer = place.port, self._sharing.informer(place.node, place.service)
        namespace = place.service[0]
        match action:
            case Create(manifest):
                try:
                    raw = await port.create_raw(ENDPOINT_SLICES, manifest)
                except AlreadyExists:
                    # Another program has removed the labels that mark it as a mirror.
                    await port.delete(ENDPOINT_SLICES, manifest["metadata"]["name"], namespace)
                    raw = await port.create_raw(ENDPOINT_SLICES, manifest)
                informer.absorb(raw)
            case Change(name, operations):
                try:
                    raw = await port.patch_raw(ENDPOINT_SLICES, name, operations, namespace, style="json")
                except Invalid as error:
                    # The slice has changed, so the patch by position no longer applies.
                    raise Conflict(409, "Conflict", str(error)) from error
                informer.absorb(raw)
            case Delete(name, uid, instead):
                with contextlib.suppress(NotFound, Conflict), informer.vanished.noticed((namespace, name), uid):
                    await port.delete(ENDPOINT_SLICES, name, namespace, uid=uid)
                if instead is not None:
                    informer.absorb(await port.create_raw(ENDPOINT_SLICES, instead))


def _addresses(slices: list[Object]) -> set[str]:
    """Return the addresses of ready endpoints."""
    return {address for obj in slices for found in ready(obj.decode()).values() for address in found}


class _Source(NamedTuple):
    """A cluster as cached in the stores."""

    origin: str
    slices: list[Object] | None
    silent_in: float | None
    ranges: PodRanges
    ports: frozenset[str] | None
    """Names of the ports that are published; None for all."""
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def silent(self) -> bool:
        return self.silent_in == 0.0

    @property
    def seen(self) -> object:
        slices = self.slices
        versions = None if slices is None else frozenset((obj.name, obj.version) for obj in slices)
        return (self.origin, self.silent, self.ranges, self.ports, self.labels, versions)
