"""Metrics of a gateway from Envoy's counters: health of peers, refused connections, traffic."""

from collections.abc import Collection, Iterable, Mapping

from prometheus_client import Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from agent.base.metrics import REGISTRY
from agent.model.envoycounters import Counters, PeerHealth, traffic

_ADDRESSES = Gauge(
    "flotilla_gateway_peer_addresses",
    "Addresses of a peer's gateways, by whether they answer.",
    ("peer", "state"),
    registry=REGISTRY,
)
_REFUSED = Gauge(
    "flotilla_gateway_refused_connections",
    "Incoming connections that this gateway has refused since its Envoy started, by reason.",
    ("reason",),
    registry=REGISTRY,
)
_NOT_TAKEN = Gauge(
    "flotilla_gateway_refused_listeners",
    "Listeners that this gateway's Envoy refuses: local ports that do not answer, or peers that are not admitted.",
    registry=REGISTRY,
)
_FOREIGN = Gauge(
    "flotilla_gateway_addresses_left_out",
    "Addresses of ready endpoints that this gateway does not call: no running pod of their namespace has them.",
    registry=REGISTRY,
)
_TOO_MUCH = Gauge(
    "flotilla_gateway_services_left_out",
    "Services of GatewayPeers that this gateway leaves out: they exceed its Envoy's memory or the volume of its files.",
    registry=REGISTRY,
)
_READY, _LOST = "ready", "lost"


class _Passed(Collector):
    """Connections and bytes of each peer. The series are computed at each scrape and not stored."""

    def __init__(self) -> None:
        self.counters: Counters = {}
        self.peers: Collection[str] = ()

    def describe(self) -> Iterable[CounterMetricFamily]:
        """Return the metrics' names and labels, for prometheus_client."""
        return self._empty()

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Return the metrics' values, for prometheus_client."""
        connections, sent = self._empty()
        for peer, found in traffic(self.counters, self.peers).items():
            connections.add_metric((peer, "out"), found.calling)
            connections.add_metric((peer, "in"), found.called)
            sent.add_metric((peer, "out"), found.sent)
            sent.add_metric((peer, "in"), found.received)
        return connections, sent

    def _empty(self) -> tuple[CounterMetricFamily, CounterMetricFamily]:
        connections = (
            "TCP connections of local callers to a peer (out), and from its gateways (in), including health checks."
        )
        sent = "Bytes of TCP connections, in either direction of call: sent to a peer (out), and received from it (in)."
        return (
            CounterMetricFamily("flotilla_gateway_connections", connections, labels=("peer", "direction")),
            CounterMetricFamily("flotilla_gateway_bytes", sent, labels=("peer", "direction")),
        )


_PASSED = _Passed()
REGISTRY.register(_PASSED)


def measure(counters: Counters, peers: Mapping[str, PeerHealth], refused: Mapping[str, int]) -> None:
    """Update the metrics from Envoy's counters."""
    for peer, found in peers.items():
        _ADDRESSES.labels(peer, _READY).set(found.healthy)
        _ADDRESSES.labels(peer, _LOST).set(found.total - found.healthy)
    for reason, count in refused.items():
        _REFUSED.labels(reason).set(count)
    _PASSED.counters, _PASSED.peers = counters, tuple(peers)


def refused_listeners(count: int) -> None:
    """Set the number of listeners that Envoy refuses."""
    _NOT_TAKEN.set(count)


def addresses_left_out(count: int) -> None:
    """Set the number of endpoint addresses that the gateway does not call."""
    _FOREIGN.set(count)


def services_left_out(count: int) -> None:
    """Set the number of Services of GatewayPeers that exceed the limits."""
    _TOO_MUCH.set(count)


def forget(peer: str) -> None:
    """Remove the metrics of a removed peer."""
    for state in (_READY, _LOST):
        _ADDRESSES.remove(peer, state)
