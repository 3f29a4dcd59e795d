"""What is known of a shared Service between each pair of clusters, from the stores alone and from its drivers."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.names.links import BY_GATEWAY, external
from agent.clusters.deps import Deps
from agent.clusters.refusals import NOT_OURS
from agent.clusters.target import State
from agent.controllers.links.elsewhere import LinkedServicesRoom
from agent.drivers.choice import all_drivers
from agent.drivers.driver import BY_ADDRESSES, HERE, Driver, Place
from agent.drivers.gateway import Gateway
from agent.drivers.sharing import Sharing
from agent.kube.errors import Forbidden, KubeError
from agent.kube.store import Key
from agent.model.endpoints import is_mirror, ready
from agent.model.links import HERE as LOCAL
from agent.model.links import REASONS, Link, Peer, link, peer
from agent.model.servicelinks import CONNECTED, PROGRAMMED, UNVERIFIED, Finding, Pair, said_by
from agent.model.servicerule import Rule

_OFF = REASONS["none"]
_NAMES = {reason: name for name, reason in REASONS.items()}
_AWAY = "TargetUnreachable"
_ANSWER_SECONDS = 3.0
_SILENT_SECONDS = 30.0
_COPIED = "multicluster/Shared"
"""Condition of a Service that has not all the copies that it should have."""

Raw = dict[str, Any]


class NotYet(Exception):
    """A store is still being read: look again soon."""


class Cluster(NamedTuple):
    """A cluster that pods behind a Service may be in."""

    node: str
    name: str
    """As links tell it."""


class Callers(NamedTuple):
    """Callers in one namespace of a cluster, and the Service that they use."""

    cluster: Cluster
    service: Key
    elsewhere: str = ""
    """Their namespace, if it is not that of the Service whose endpoints are told."""


class Offer(NamedTuple):
    """Endpoints that a cluster has of its own."""

    any: bool
    ready: int


class _Asked:
    """What drivers other than that of addresses have answered, each asked once in a pass.

    One that gives no answer in time is not asked for a while: others do not wait for it.
    """

    def __init__(self, drivers: Mapping[str, Driver], silent: dict[str, float]) -> None:
        self._drivers = drivers
        self._silent = silent
        self._known: dict[tuple[str, bool, Place], Finding] = {}

    async def connected(self, reason: str, place: Place | None) -> Finding | None:
        """Whether callers in one place reach others by a driver."""
        return await self._of(reason, place, offers=False) if reason != BY_ADDRESSES else None

    async def offered(self, reason: str, place: Place | None) -> Finding | None:
        """What has become of the endpoints in one."""
        return await self._of(reason, place, offers=True)

    async def _of(self, reason: str, place: Place | None, *, offers: bool) -> Finding | None:
        if place is None or reason not in self._drivers:
            return None
        if (key := (reason, offers, place)) not in self._known:
            self._known[key] = await self._ask(self._drivers[reason], place, offers=offers)
        return self._known[key]

    async def _ask(self, driver: Driver, place: Place, *, offers: bool) -> Finding:
        now = asyncio.get_running_loop().time()
        if self._silent.get(place.node, now) > now:
            return Finding("Unknown", _AWAY, f"{place.title}: no answer")
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await (driver.offered(place) if offers else driver.connected(place))
        except Forbidden as error:
            return Finding("False" if offers else "Unknown", "Forbidden", str(error))
        except (TimeoutError, KubeError) as error:
            self._silent[place.node] = now + _SILENT_SECONDS
            return Finding("Unknown", _AWAY, f"{place.title}: {str(error) or 'no answer'}")


class Gather:
    """Reads for one Service after the other."""

    def __init__(self, deps: Deps, sharing: Sharing, elsewhere: LinkedServicesRoom) -> None:
        self._deps = deps
        self._sharing = sharing
        self._elsewhere = elsewhere
        self._gateway = Gateway(sharing)
        self._drivers = {driver.reason: driver for driver in all_drivers(sharing)}
        self._silent: dict[str, float] = {}
        """Until when clusters are not asked, by their virtual nodes."""
        self._links: dict[tuple[str, str], tuple[object, Link]] = {}

    def clusters(self, service: Key) -> list[Cluster]:
        """All that pods behind a Service may be in, each once, this one first."""
        found, called = [Cluster(HERE, self._deps.settings.cluster_name or LOCAL)], set[str]()
        for node in self._sharing.serving(service[0]):
            target, place = self._deps.targets.by_node(node), self._sharing.place(node, service)
            obj = self._sharing.target_object(node)
            if obj is None or obj.deleting or (target is not None and target.is_self):
                continue
            if place is not None and not self._sharing.stands_for(place):
                continue
            found.append(Cluster(node, node if obj.name in called else obj.name))
            called.add(obj.name)
        return [found[0], *sorted(found[1:], key=lambda cluster: cluster.name)]

    def known_elsewhere(self, clusters: Collection[Cluster]) -> set[str] | None:
        """The same of those in which callers of other namespaces can be linked; None where nobody wants that."""
        if not self._deps.settings.link_namespaces:
            return None
        return self.known([cluster for cluster in clusters if self._is_everywhere(cluster.node)])

    def _is_everywhere(self, node: str) -> bool:
        obj = self._sharing.target_object(node)
        return node == HERE or (obj is not None and not obj.namespace)

    def callers(self, service: Key, rule: Rule, clusters: Collection[Cluster]) -> list[Callers]:
        """Those of the Service's own namespace in all clusters, then those of others that links mean."""
        found = [Callers(cluster, service) for cluster in clusters]
        if not self._deps.settings.link_namespaces:
            return found
        for name, namespace in sorted(rule.elsewhere):
            found += [
                Callers(cluster, (namespace, service[1]), namespace)
                for cluster in clusters
                if name in self._sharing.called(cluster.node) and self._is_everywhere(cluster.node)
            ]
        return found

    def known(self, clusters: Collection[Cluster]) -> set[str]:
        """Names by which a ServiceLink may call these clusters."""
        return {name for cluster in clusters for name in (cluster.name, *self._sharing.called(cluster.node)[:1])}

    def offers(self, service: Key, clusters: Collection[Cluster]) -> dict[str, Offer]:
        """Endpoints of clusters, by their virtual nodes. Raises NotYet."""
        return {cluster.node: self._offer(cluster.node, service) for cluster in clusters}

    def _offer(self, node: str, service: Key) -> Offer:
        if node and self._sharing.is_at_home(service):
            return Offer(any=False, ready=0)
        target = self._deps.targets.by_node(node) if node else None
        if node and (target is None or target.record.state is State.CONNECTING):
            self._while_connecting(node)
        unread = target is not None and target.ready and not self._sharing.is_synced(node)
        if unread and self._sharing.informer(node).error is None:
            raise NotYet
        away = {obj.name for obj in self._sharing.nodes.store}
        slices = self._sharing.slices(node, service)
        own = [slice.decode() for slice in slices if not is_mirror(slice.labels)]
        some = (endpoint.get("nodeName") not in away for slice in own for endpoint in slice.get("endpoints") or ())
        counts = (len(found) for slice in own for at, found in ready(slice).items() if at not in away)
        return Offer(any=any(some), ready=sum(counts))

    async def pairs(
        self, service: Key, link: Raw, rule: Rule, clusters: list[Cluster], offers: dict[str, Offer]
    ) -> list[Pair]:
        """One for all callers and each cluster that offers them endpoints. Raises NotYet, KubeError."""
        found, asked = [], _Asked(self._drivers, self._silent)
        offering = [cluster for cluster in clusters if offers[cluster.node].any]
        for callers in self.callers(service, rule, clusters):
            consumer = callers.cluster
            names_of = self._sharing.called(consumer.node)
            sources = [
                source
                for source in offering
                if (callers.elsewhere or source is not consumer)
                and rule.allows(self._sharing.called(source.node), names_of, callers.elsewhere)
            ]
            if not sources:
                continue
            away = self._away(callers, service)
            place = self._sharing.place(consumer.node, callers.service)
            for source in sources:
                offer = offers[source.node]
                reason = self._reason(callers, source, service)
                if reason == BY_GATEWAY and place is not None:
                    said: Finding | None = self._gateway.between(place, source.node)
                else:
                    said = await asked.connected(reason, place)
                programmed = away or self._programmed(consumer, source, place, reason, offer)
                if programmed.status == "True":
                    programmed = await asked.offered(reason, self._sharing.place(source.node, service)) or programmed
                connected = self._connected(callers, source, reason, said)
                if external(reason):
                    does, reaches = said_by(external(reason), link)
                    programmed, connected = away or does, connected if connected.reason == _AWAY else reaches
                driver = _NAMES.get(reason, external(reason) and reason) if reason != _OFF else ""
                two = (consumer.name, source.name)
                found.append(Pair(*two, driver, programmed, connected, offer.ready, callers.elsewhere))
        return found

    def _reason(self, callers: Callers, source: Cluster, service: Key) -> str:
        if source is callers.cluster:
            return BY_ADDRESSES
        return self._sharing.driver(callers.cluster.node, source.node, service)

    def _away(self, callers: Callers, original: Key) -> Finding | None:
        """Why nothing can be written to a cluster at all; None where it can be. Raises NotYet."""
        cluster, service = callers.cluster, callers.service
        if callers.elsewhere and (problem := self._elsewhere.problem(service, original)) is not None:
            return problem
        if cluster.node == HERE:
            return None
        target = self._deps.targets.by_node(cluster.node)
        if target is None or target.record.state is State.CONNECTING:
            return Finding("False", _AWAY, f"Target {cluster.name}: {self._while_connecting(cluster.node)}")
        if not target.ready:
            return Finding("False", _AWAY, f"Target {cluster.name}: {target.record.message}")
        if self._sharing.place(cluster.node, service) is None:
            return self._not_copied(service)
        return None

    def _while_connecting(self, node: str) -> str:
        """Why its Target has not been ready. Raises NotYet where it has: what it offers is about to be known."""
        obj = self._sharing.target_object(node)
        said = find_condition((obj.decode().get("status") or {}).get("conditions"), "Ready") if obj else None
        if said is None or said.get("status") == "True":
            raise NotYet
        return str(said.get("message", ""))

    def _not_copied(self, service: Key) -> Finding:
        original = self._sharing.services.store.get(service)
        status = (original.decode().get("status") or {}) if original is not None else {}
        said = find_condition(status.get("conditions"), _COPIED) or {}
        message = str(said.get("message", "")) if said.get("status") == "False" else ""
        missing = f'namespaces "{service[0]}" not found' in message
        reason = "NamespaceMissing" if missing else "Conflict" if NOT_OURS in message else "Pending"
        return Finding("False", reason, message or "it has no copy there yet")

    def _programmed(
        self, consumer: Cluster, source: Cluster, place: Place | None, reason: str, offer: Offer
    ) -> Finding:
        if not reason:
            between = self._between(consumer.node, source.node)
            if between.reason in ("Pending", "Forbidden") or between.ready == "True":
                why = "Forbidden" if between.reason == "Forbidden" else "Pending"
                return Finding("False", why, between.message)
        if reason == BY_ADDRESSES and place is not None and offer.any:
            obj = self._sharing.target_object(source.node)
            origin = names.origin(*obj.key) if obj is not None else self._deps.cluster_uid
            mirrored = self._sharing.slices(consumer.node, place.service)
            if not any(is_mirror(each.labels) and each.labels.get(names.LABEL_ORIGIN) == origin for each in mirrored):
                return Finding("False", "Pending", "no endpoint is told yet")
        return Finding("True", PROGRAMMED)

    def _connected(self, callers: Callers, source: Cluster, reason: str, said: Finding | None) -> Finding:
        consumer = callers.cluster
        target = self._deps.targets.by_node(source.node) if source.node else None
        if source.node and (target is None or not target.ready):
            why = target.record.message if target is not None else "it is not connected"
            return Finding("Unknown", _AWAY, f"Target {source.name}: {why}")
        if not reason:
            return Finding("False", "NoPath", self._between(consumer.node, source.node).message)
        if source is consumer:
            return Finding("True", CONNECTED, "they are in the same cluster")
        if callers.elsewhere and reason != BY_ADDRESSES and not external(reason):
            message = f"the driver {_NAMES.get(reason, reason)} shares a Service in its own namespace alone"
            return Finding("False", "NoPath", f"{message}: name the driver endpointslices")
        if said is not None:
            return said
        if self._sharing.is_measured(consumer.node, source.node):
            return Finding("True", CONNECTED, self._between(consumer.node, source.node).message)
        return Finding("Unknown", UNVERIFIED, "nobody has measured whether pods are reached at their addresses")

    def _between(self, one: str, other: str) -> Link:
        """The link of two clusters, as their Targets tell it."""
        home, far = (one, other) if other else (other, one)
        objects = [self._sharing.target_object(node) for node in (home, far)]
        networks = [self._sharing.networks(node) or () for node in (home, far)]
        seen = (*((obj.version if obj is not None else "") for obj in objects), *networks)
        known = self._links.get((home, far))
        if known is None or known[0] != seen:
            peers = [peer(obj.decode(), told) if obj else Peer("") for obj, told in zip(objects, networks, strict=True)]
            known = self._links[home, far] = (seen, link(peers[0] if home else None, peers[1]))
        return known[1]
