"""Services of one namespace that clusters offer to each other through gateways, computed from the stores alone."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from agent.api.names.links import BY_GATEWAY, LOCAL_FIRST
from agent.api.names.mcs import LABEL_DERIVED
from agent.drivers.driver import BY_ADDRESSES
from agent.drivers.handover import Handover, HandoverStage, Route, follows, has_mirrors, lists_service
from agent.drivers.sharing import Sharing
from agent.kube.informer import Informer
from agent.kube.store import Key
from agent.model.endpoints import count_ready
from agent.model.gatewaylink import Shared, ports_of
from agent.model.gatewaypeer import TCP, UDP
from agent.model.service import is_headless
from agent.model.serviceimports import ports_exported


class Offered(NamedTuple):
    """A shared Service."""

    nodes: frozenset[str]
    """Clusters that share it."""
    ports: tuple[tuple[str, int], ...]
    """TCP ports that can be called, as name and number."""
    udp: tuple[tuple[str, int], ...]
    """UDP ports; empty unless gateways forward UDP."""
    at_home: bool
    """Whether its pods run in this cluster only."""
    headless: tuple[tuple[str, int], ...] = ()
    """TCP ports of a headless Service: callers connect to its hosts, not to the Service."""


class Offers:
    """Offers between pairs of clusters. `of` computes the common part once: with 100 clusters, each asks for 200
    pairs."""

    def __init__(self, sharing: Sharing, written: Mapping[str, Informer]) -> None:
        self._sharing = sharing
        self._written = written
        """GatewayPeers written by this agent, by cluster."""
        self.handover = Handover()

    def of(self, namespace: str) -> dict[Key, Offered]:
        """Return the Services of a namespace that other clusters may call; computed once for all clusters."""
        found = {}
        for key in self._sharing.known(namespace):
            service = self._sharing.services.store.get(key)
            if service is not None and self._sharing.is_shared(key) and self._sharing.may_be_exported(key):
                spec, nodes = service.decode()["spec"], frozenset(self._sharing.nodes_of(key))
                tcp, at_home = ports_of(spec, TCP), self._sharing.is_at_home(key)
                if is_headless(spec):
                    found[key] = Offered(nodes, (), (), at_home, tcp)
                    continue
                udp = ports_of(spec, UDP) if self._sharing.deps.settings.gateway_udp else ()
                found[key] = Offered(nodes, tcp, udp, at_home)
        return found

    def between(
        self, consumer: str, source: str, shared: Mapping[Key, Offered], *, counted: bool = True
    ) -> list[Shared]:
        """Return the Services that callers in one cluster reach in another through gateways.

        :param counted: whether to include the number of ready endpoints
        """
        found = []
        for key, offered, drained, allowed in self.led(consumer, source, shared):
            exported = self._exported(source, key)
            some, datagrams = (
                tuple(
                    (name, number)
                    for name, number in every
                    if (allowed is None or number in allowed) and (exported is None or name in exported)
                )
                for every in (offered.ports, offered.udp)
            )
            if some or datagrams:
                count = self._ready(source, key) if counted and not drained else 0
                found.append(Shared(key[1], some, count, datagrams))
        return found

    def led(
        self, consumer: str, source: str, shared: Mapping[Key, Offered]
    ) -> Iterator[tuple[Key, Offered, bool, Collection[int] | None]]:
        """Services whose traffic from one cluster is routed to another through gateways: whether new connections
        already use another path, and the allowed port numbers (None: all)."""
        here, there = self._sharing.called(consumer), self._sharing.called(source)
        for key, offered in shared.items():
            if consumer not in offered.nodes or source not in offered.nodes or (source and offered.at_home):
                continue
            stage = self._stage(Route(consumer, source, key))
            if stage is not HandoverStage.REMOVE:
                rule, drained = self._sharing.rule(key), stage is HandoverStage.DRAIN
                yield key, offered, drained, rule.ports(there, here) if rule.allows(there, here) else ()

    def _exported(self, source: str, key: Key) -> Collection[str] | None:
        """Return the names of the ports that a cluster exports; None if the Service does not derive from a
        ServiceImport."""
        service = self._sharing.services.store.get(key)
        if service is None or LABEL_DERIVED not in service.labels:
            return None
        return ports_exported(service.decode(), source)

    def own_first(self, namespace: str) -> list[str]:
        """Return the Services of a namespace whose callers prefer endpoints of their own cluster."""
        known = self._sharing.known(namespace)
        return [key[1] for key in known if self._sharing.rule(key).affinity == LOCAL_FIRST]

    def _stage(self, route: Route) -> HandoverStage:
        """Return the stage of the handover from gateways to another driver; REMOVE also if gateways never served the
        route."""
        driver, written = self._sharing.driver(*route), self._written.get(route.consumer)
        peer = (route.service[0], self._sharing.gateway_peer(route.source))
        made = written.store.get(peer) if written is not None else None
        if follows(driver, BY_GATEWAY) and lists_service(made, route.service[1]):
            now = asyncio.get_running_loop().time()
            leads = driver == BY_ADDRESSES and has_mirrors(self._sharing, route)
            return self.handover.stage(route, now, new_leads=leads)
        self.handover.end(route)
        return HandoverStage.KEEP if driver == BY_GATEWAY else HandoverStage.REMOVE

    def _ready(self, node: str, key: Key) -> int:
        """Return the number of ready endpoints in the cluster itself."""
        own = (each.decode() for each in self._sharing.own_slices(node, key))
        return count_ready(own, self._sharing.away)
