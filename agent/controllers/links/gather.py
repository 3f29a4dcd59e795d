"""What is known of a shared Service between each pair of clusters, from the stores alone and from its drivers."""

from collections.abc import Collection
from typing import Any, NamedTuple

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.names.links import external
from agent.clusters.deps import Deps
from agent.clusters.target import State
from agent.drivers.choice import all_drivers
from agent.drivers.driver import BY_ADDRESSES, HERE, Place
from agent.drivers.sharing import Sharing
from agent.kube.store import Key, Object
from agent.model.endpoints import is_mirror, ready
from agent.model.links import HERE as LOCAL
from agent.model.links import REASONS, Link, Peer, link, peer
from agent.model.servicelinks import CONNECTED, PROGRAMMED, UNVERIFIED, Finding, Pair, said_by
from agent.model.servicerule import Rule

_OFF = REASONS["none"]
_NAMES = {reason: name for name, reason in REASONS.items()}
_AWAY = "TargetUnreachable"
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


class Offer(NamedTuple):
    """Endpoints that a cluster has of its own."""

    any: bool
    ready: int


class Gather:
    """Reads for one Service after the other."""

    def __init__(self, deps: Deps, sharing: Sharing) -> None:
        self._deps = deps
        self._sharing = sharing
        self._drivers = {driver.reason: driver for driver in all_drivers(sharing)}
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
        """A row for each consumer and each cluster that offers it endpoints. Raises NotYet, KubeError."""
        found = []
        offering = [cluster for cluster in clusters if offers[cluster.node].any]
        for consumer in clusters:
            names_of = self._sharing.called(consumer.node)
            sources = [
                source
                for source in offering
                if source is not consumer and rule.allows(self._sharing.called(source.node), names_of)
            ]
            if not sources:
                continue
            away = self._away(consumer, service)
            place = self._sharing.place(consumer.node, service)
            said: dict[str, Finding] = {}
            for source in sources:
                offer = offers[source.node]
                reason = self._sharing.driver(consumer.node, source.node, service)
                if reason not in (BY_ADDRESSES, *said) and reason in self._drivers and place is not None:
                    said[reason] = await self._drivers[reason].connected(place)
                programmed = away or self._programmed(consumer, source, place, reason, offer)
                connected = self._connected(consumer, source, reason, said.get(reason))
                if external(reason):
                    does, reaches = said_by(external(reason), link)
                    programmed, connected = away or does, connected if connected.reason == _AWAY else reaches
                driver = _NAMES.get(reason, external(reason) and reason) if reason != _OFF else ""
                found.append(Pair(consumer.name, source.name, driver, programmed, connected, offer.ready))
        return found

    def _away(self, cluster: Cluster, service: Key) -> Finding | None:
        """Why nothing can be written to a cluster at all; None where it can be. Raises NotYet."""
        if cluster.node == HERE:
            return None
        target, obj = self._deps.targets.by_node(cluster.node), self._sharing.target_object(cluster.node)
        if target is None or target.record.state is State.CONNECTING:
            said = find_condition((obj.decode().get("status") or {}).get("conditions"), "Ready") if obj else None
            if said is None or said.get("status") == "True":
                raise NotYet
            return Finding("False", _AWAY, f"Target {cluster.name}: {said.get('message', '')}")
        if not target.ready:
            return Finding("False", _AWAY, f"Target {cluster.name}: {target.record.message}")
        if self._sharing.place(cluster.node, service) is None:
            return self._not_copied(service)
        return None

    def _not_copied(self, service: Key) -> Finding:
        original = self._sharing.services.store.get(service)
        status = (original.decode().get("status") or {}) if original is not None else {}
        said = find_condition(status.get("conditions"), _COPIED) or {}
        message = str(said.get("message", "")) if said.get("status") == "False" else ""
        missing = f'namespaces "{service[0]}" not found' in message
        return Finding("False", "NamespaceMissing" if missing else "Pending", message or "it has no copy there yet")

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

    def _connected(self, consumer: Cluster, source: Cluster, reason: str, said: Finding | None) -> Finding:
        target = self._deps.targets.by_node(source.node) if source.node else None
        if source.node and (target is None or not target.ready):
            why = target.record.message if target is not None else "it is not connected"
            return Finding("Unknown", _AWAY, f"Target {source.name}: {why}")
        if not reason:
            return Finding("False", "NoPath", self._between(consumer.node, source.node).message)
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
            peers = [_peer(obj, told) for obj, told in zip(objects, networks, strict=True)]
            known = self._links[home, far] = (seen, link(peers[0] if home else None, peers[1]))
        return known[1]


def _peer(obj: Object | None, networks: object) -> Peer:
    return peer(obj.decode(), networks) if obj is not None else Peer("")  # type: ignore[arg-type]
