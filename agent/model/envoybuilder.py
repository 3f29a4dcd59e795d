"""Builder of a gateway's Envoy clusters and listeners, peer by peer. Pure.

A change affects one namespace, and usually one peer or the endpoints of one Service. Unchanged peers keep the resources
of the previous build, as the same bytes objects.
"""

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from agent.model import envoy, envoyudp
from agent.model.envoycounters import ALIVE, INGRESS
from agent.model.envoyparts import Place, Raw, Resources, certificate_cluster, encoded, static_cluster
from agent.model.gatewaypeer import TCP, Gateway, Peer, Protocol, Service, health_name, server_name

CHECKS_LIMIT = 256
"""Maximum number of clusters that check whether gateways work; each takes 0.1 MiB of Envoy's memory.

Writers of GatewayPeers decide how many differ. Gateways beyond it have only the checks of admission, every 30 s.
"""
_NONE: list[Service] = []
_At = tuple[str, int, Protocol, str | None]
"""Name, port, protocol and host of a Service."""


class _Built(NamedTuple):
    """Resources of one peer."""

    peer: Peer
    services: Sequence[Service]
    """Local Services in the namespace of the peer."""
    clusters: dict[str, bytes]
    checks: dict[str, bytes]
    """Cluster that checks whether the peer's gateways work; empty without addresses."""
    listeners: dict[str, bytes]
    chains: list[bytes]


class Builder:
    """Resources of one gateway, kept from one build to the next."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._own = ""
        self._built: dict[str, _Built] = {}
        self._checks: dict[str, bytes] = {}
        """Clusters that check whether gateways work, which peers in several namespaces share."""
        self._services: dict[str, list[Service]] = {}
        self._chains: list[bytes] = []
        self._alive = b""
        """Filter chain that answers checks whether this gateway works."""
        self._ingress = b""
        self._common = encoded([certificate_cluster(place), envoy.answering_cluster(place)])
        self._health = msgspec.json.encode(envoy.health_listener(place))

    def build(self, gateway: Gateway) -> Iterator[str]:
        """Build changed peers; yield the key of each built peer, so that the caller can let other tasks run."""
        if gateway.cluster != self._own:
            self._own, self._built, self._checks = gateway.cluster, {}, {}
            self._alive = msgspec.json.encode(envoy.alive_chain(self._own, self._place))
        self._services = _by_namespace(gateway.services, self._services)
        before, found = self._built, dict[str, _Built]()
        for peer in gateway.peers:
            known, own = before.get(peer.key), self._services.get(peer.namespace, _NONE)
            if known is not None and known.peer is peer and known.services is own:
                found[peer.key] = known
            else:
                found[peer.key] = self._build(peer, own)
                yield peer.key
        self._built = found
        self._checks = {name: made for each in found.values() for name, made in each.checks.items()}

    def resources(self, gateway: Gateway) -> Resources:
        """Return all resources of a gateway. Builds what `build` has not built."""
        for _ in self.build(gateway):
            pass
        clusters, listeners = dict(self._common), {envoy.HEALTH: self._health, INGRESS: b""}
        chains = [self._alive]
        for each in self._built.values():
            clusters |= each.clusters | each.checks
            listeners |= each.listeners
            chains += each.chains
        if not _are_the_same(chains, self._chains):
            self._chains = chains
            raw = [msgspec.Raw(each) for each in chains]
            self._ingress = msgspec.json.encode(envoy.ingress(raw, self._place))
        listeners[INGRESS] = self._ingress
        return Resources(clusters, listeners)

    def _build(self, peer: Peer, services: Sequence[Service]) -> _Built:
        offered, chains = self._offered(peer, services)
        called, listeners = self._called(peer)
        chains = [envoy.chain(peer, self._own, self._place), *chains]
        health = static_cluster(health_name(peer.namespace, peer.uid, self._own), [self._place.health])
        # Also for peers without Services: Envoy validates the CA here before it is in the listener of all peers.
        of_peer = envoy.tcp_peer_cluster(peer, self._own, self._place)
        clusters = encoded([health, *offered, of_peer, *called])
        return _Built(peer, services, clusters, self._check(peer), encoded(listeners), list(encoded(chains).values()))

    def _check(self, peer: Peer) -> dict[str, bytes]:
        name = ALIVE + peer.gateways
        if not peer.addresses or (name not in self._checks and len(self._checks) >= CHECKS_LIMIT):
            return {}
        if name not in self._checks:
            self._checks[name] = msgspec.json.encode(envoy.alive_cluster(peer, self._place))
        return {name: self._checks[name]}

    def _offered(self, peer: Peer, services: Sequence[Service]) -> tuple[list[Raw], list[Raw]]:
        """Return clusters of local Services that a peer may call, and filter chains for UDP ports."""
        endpoints: dict[_At, tuple[str, ...]] = {
            (each.name, each.port, each.protocol, each.host): each.endpoints for each in services
        }
        clusters, chains = list[Raw](), list[Raw]()
        for each in peer.offered:
            found = endpoints.get((each.name, each.port, each.protocol, each.host))
            if found is None:
                continue
            to = (peer.namespace, each.name, each.port, peer.uid, self._own, each.host)
            name = server_name(*to, protocol=each.protocol)
            if each.protocol == TCP:
                clusters.append(static_cluster(name, found))
            else:
                clusters.append(envoyudp.service_cluster(name, found))
                chains.append(envoyudp.chain(peer, each, name, self._place))
        return clusters, chains

    def _called(self, peer: Peer) -> tuple[list[Raw], list[Raw]]:
        """Return clusters and listeners for the Services of a peer."""
        clusters, listeners = list[Raw](), list[Raw]()
        for called in peer.services if peer.addresses else ():
            if called.protocol == TCP:
                listeners += [envoy.egress(peer, called, port, self._own, self._place) for port in called.locals]
            else:
                clusters.append(envoyudp.peers_cluster(peer, called, self._own, self._place))
                listeners += [envoyudp.egress(peer, called, port, self._place) for port in called.locals]
        return clusters, listeners


def resources(gateway: Gateway, place: Place) -> Resources:
    """Return all resources of a gateway, without an earlier build."""
    return Builder(place).resources(gateway)


def _by_namespace(services: Iterable[Service], before: Mapping[str, list[Service]]) -> dict[str, list[Service]]:
    """Group Services by namespace; a namespace without a change keeps its list from before."""
    found = defaultdict[str, list[Service]](list)
    for each in services:
        found[each.namespace].append(each)
    for namespace, had in before.items():
        if _are_the_same(had, found.get(namespace, ())):
            found[namespace] = had
    return dict(found)


def _are_the_same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Return True if both have the same objects; unlike `==`, it compares no content."""
    return len(one) == len(other) and all(map(operator.is_, one, other))
