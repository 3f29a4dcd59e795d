"""State of a shared Service between each pair of clusters, from the stores and its drivers."""

from collections.abc import Callable
from typing import Any, NamedTuple

from agent.api.conditions import find_condition
from agent.api.names.links import BY_GATEWAY, external
from agent.base.yielding import take_turn
from agent.clusters.copies.refusals import NOT_OURS
from agent.clusters.deps import Deps
from agent.clusters.target import State
from agent.drivers.choice import all_drivers
from agent.drivers.driver import BY_ADDRESSES, LOCAL, Place
from agent.drivers.handover import Route, has_mirrors
from agent.drivers.sharing import Sharing
from agent.kube.store import Key
from agent.model.links import REASONS, Link, Peer, link, peer
from agent.model.servicelinks import AWAY, CONNECTED, PROGRAMMED, Finding, Pair, said_by
from agent.model.servicerule import Rule
from agent.services.links.findings import DriverFindings, ServiceFindings
from agent.services.links.other_namespaces import LinkedServicesController
from agent.services.links.topology import Callers, Cluster, NotYet, Offer, ServiceTopology

_OFF = REASONS["none"]
_NAMES = {reason: name for name, reason in REASONS.items()}
_COPIED = "multicluster/Shared"
"""Condition of a Service that lacks some of its copies."""

Raw = dict[str, Any]


class _Look(NamedTuple):
    """Common data of all pairs of one Service."""

    findings: ServiceFindings
    link: Raw
    offers: dict[str, Offer]
    places: dict[str, Place | None]
    """The Service in each of its clusters."""


class Gather:
    """Reads the state of one Service at a time."""

    def __init__(
        self,
        deps: Deps,
        sharing: Sharing,
        topology: ServiceTopology,
        elsewhere: LinkedServicesController,
        changed: Callable[[Key, float], None],
    ) -> None:
        self._deps = deps
        self._sharing = sharing
        self._topology = topology
        self._elsewhere = elsewhere
        self.findings = DriverFindings({driver.reason: driver for driver in all_drivers(sharing)}, changed)
        self._links: dict[tuple[str, str], tuple[object, Link]] = {}

    async def pairs(
        self, service: Key, link: Raw, rule: Rule, clusters: list[Cluster], offers: dict[str, Offer]
    ) -> list[Pair]:
        """Return one pair for all callers and each cluster that offers them endpoints. Raises NotYet, KubeError."""
        found, findings = list[Pair](), self.findings.of(service)
        offering = [cluster for cluster in clusters if offers[cluster.node].any]
        reached = {cluster.node for cluster in offering if self._is_reached(cluster.node)}
        look = _Look(findings, link, offers, {node: self._sharing.place(node, service) for node in reached})
        for callers in self._topology.callers(service, rule, clusters):
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
            # 100 clusters that all offer endpoints would otherwise block the event loop for a second.
            await take_turn()
            away = self._away(callers, service)
            if away is not None and away.reason == AWAY:
                findings.away(consumer.node)
            place = self._sharing.place(consumer.node, callers.service)
            found += [await self._pair(look, callers, source, place, away) for source in sources]
        if findings.expected:
            raise NotYet
        return found

    async def _pair(
        self, look: _Look, callers: Callers, source: Cluster, place: Place | None, away: Finding | None
    ) -> Pair:
        findings, theirs, offer = look.findings, look.places.get(source.node), look.offers[source.node]
        reason = self._reason(callers, source, findings.service)
        at_gateways = bool(callers.elsewhere) and reason == BY_GATEWAY
        # Callers in another namespace use mirrors of the slices that gateways have in the Service's own namespace.
        asked = self._sharing.place(callers.cluster.node, findings.service) if at_gateways else place
        said = await findings.connected(reason, asked if away is None else None, source.node, theirs)
        unserved = self._not_by_gateway(callers, findings.service, source) if at_gateways else ""
        mirrored = reason == BY_ADDRESSES or (at_gateways and not unserved)
        programmed = away or self._programmed(callers.cluster, source, place, reason, mirrored and offer.any)
        if programmed.status == "True":
            programmed = await findings.offered(reason, theirs) or programmed
        if away is not None and away.reason == AWAY and reason != BY_ADDRESSES:
            said = Finding("Unknown", AWAY, away.message)
        connected = self._connected(callers, findings.service, source, reason, said, unserved)
        if external(reason):
            does, reaches = said_by(external(reason), look.link)
            programmed, connected = away or does, connected if connected.reason == AWAY else reaches
        driver = _NAMES.get(reason, external(reason) and reason) if reason != _OFF else ""
        two = (callers.cluster.name, source.name)
        return Pair(*two, driver, programmed, connected, offer.ready, callers.elsewhere)

    def _reason(self, callers: Callers, source: Cluster, service: Key) -> str:
        if source is callers.cluster:
            return BY_ADDRESSES
        return self._sharing.driver(callers.cluster.node, source.node, service)

    def _away(self, callers: Callers, original: Key) -> Finding | None:
        """Return why nothing can be written to a cluster; None if it can. Raises NotYet."""
        cluster, service = callers.cluster, callers.service
        if callers.elsewhere and (problem := self._elsewhere.problem(service, original)) is not None:
            return problem
        if cluster.node == LOCAL:
            return None
        target = self._deps.targets.by_node(cluster.node)
        if target is None or target.record.state is State.CONNECTING:
            return Finding("False", AWAY, f"Target {cluster.name}: {self._topology.why_not_ready(cluster.node)}")
        if not target.ready:
            return Finding("False", AWAY, f"Target {cluster.name}: {target.record.message}")
        if self._sharing.place(cluster.node, service) is None:
            return self._not_copied(service)
        return None

    def _is_reached(self, node: str) -> bool:
        target = self._deps.targets.by_node(node) if node else None
        return node == LOCAL or (target is not None and target.ready)

    def _not_copied(self, service: Key) -> Finding:
        original = self._sharing.services.store.get(service)
        status = (original.decode().get("status") or {}) if original is not None else {}
        said = find_condition(status.get("conditions"), _COPIED) or {}
        message = str(said.get("message", "")) if said.get("status") == "False" else ""
        missing = f'namespaces "{service[0]}" not found' in message
        reason = "NamespaceMissing" if missing else "Conflict" if NOT_OURS in message else "Pending"
        return Finding("False", reason, message or "it has no copy there yet")

    def _programmed(
        self, consumer: Cluster, source: Cluster, place: Place | None, reason: str, mirrored: bool
    ) -> Finding:
        """Return whether the driver's objects exist.

        :param mirrored: whether they are mirrors
        """
        if not reason:
            between = self._between(consumer.node, source.node)
            if between.reason in ("Pending", "Forbidden") or between.ready == "True":
                why = "Forbidden" if between.reason == "Forbidden" else "Pending"
                return Finding("False", why, between.message)
        if mirrored and place is not None:
            route = Route(consumer.node, source.node, place.service)
            if not has_mirrors(self._sharing, route):
                return Finding("False", "Pending", "no endpoint is told yet")
        return Finding("True", PROGRAMMED)

    def _connected(
        self, callers: Callers, service: Key, source: Cluster, reason: str, said: Finding | None, unserved: str
    ) -> Finding:
        """Return whether callers reach the endpoints.

        :param unserved: why gateways do not serve callers in another namespace; empty if they do
        """
        consumer = callers.cluster
        if not self._is_reached(source.node):
            target = self._deps.targets.by_node(source.node)
            why = target.record.message if target is not None else "it is not connected"
            return Finding("Unknown", AWAY, f"Target {source.name}: {why}")
        if not reason:
            return Finding("False", "NoPath", self._between(consumer.node, source.node).message)
        if source is consumer:
            return Finding("True", CONNECTED, "they are in the same cluster")
        if unserved:
            return Finding("False", "NoPath", unserved)
        if callers.elsewhere and reason not in (BY_ADDRESSES, BY_GATEWAY) and not external(reason):
            return Finding("False", "NoPath", self._elsewhere_by(reason, callers, service, source))
        return said if said is not None else self._sharing.measured(consumer.node, source.node)

    def _not_by_gateway(self, callers: Callers, service: Key, source: Cluster) -> str:
        """Return why gateways do not serve callers in another namespace, and the remedy; empty if they do.

        A GatewayPeer is in the namespace of the Service, and applies to all callers in its cluster.
        """
        cluster = callers.cluster
        if self._sharing.place(cluster.node, service) is None:
            return f"gateways need namespace {service[0]} with a copy of the Service in {cluster.name}, too: create it"
        here, there = self._sharing.called(source.node), self._sharing.called(cluster.node)
        if self._sharing.rule(service).allows(here, there):
            return ""
        remedy = f"add {cluster.name} without a namespace to spec.to of a ServiceLink"
        return f"links keep callers in namespace {service[0]} of {cluster.name} from {source.name}: {remedy}"

    def _elsewhere_by(self, reason: str, callers: Callers, service: Key, source: Cluster) -> str:
        """Return why a driver cannot serve callers in another namespace, and the remedy."""
        message = f"the driver {_NAMES.get(reason, reason)} shares a Service in its own namespace alone"
        is_flat = self._sharing.between(callers.cluster.node, source.node, BY_ADDRESSES)
        remedy = "name the driver endpointslices, or " if is_flat else ""
        return f"{message}: {remedy}have callers use {service[1]}.{service[0]}, where that namespace is there, too"

    def forget_node(self, node: str) -> None:
        """Forget a removed target."""
        self.findings.forget_node(node)
        self._links = {pair: known for pair, known in self._links.items() if node not in pair}

    def _between(self, one: str, other: str) -> Link:
        """Return the link of two clusters as their Targets report it."""
        home, far = (one, other) if other else (other, one)
        objects = [self._sharing.target_object(node) for node in (home, far)]
        networks = [self._sharing.networks(node) or () for node in (home, far)]
        seen = (*((obj.version if obj is not None else "") for obj in objects), *networks)
        known = self._links.get((home, far))
        if known is None or known[0] != seen:
            peers = [peer(obj.decode(), told) if obj else Peer("") for obj, told in zip(objects, networks, strict=True)]
            known = self._links[home, far] = (seen, link(peers[0] if home else None, peers[1]))
        return known[1]
