"""Envoy's counters of a gateway: health of each peer, traffic, and refused connections. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

INGRESS = "gateway"
"""Name of the listener that peers call, and prefix of its counters."""
PEER = "peer/"
"""Prefix of the names of Envoy clusters that represent peers."""
ALIVE = "alive/"
"""Prefix of the names of Envoy clusters that check whether a peer's gateways work, for all namespaces."""
UDP_PEER = "udp/"
"""Prefix of the names of Envoy clusters that represent a UDP port of a peer's Service."""
_NOT_LINKED = "NotLinked"
_REFUSALS = {
    "no_filter_chain_match": "UnknownPeer",
    "ssl.fail_verify_no_cert": "NoCertificate",
    "ssl.fail_verify_error": "CertificateRefused",
    "ssl.fail_verify_san": "CertificateOfAnother",
}
REASONS = (*_REFUSALS.values(), _NOT_LINKED)
_PASSED = ("total", "rx_bytes_total", "tx_bytes_total")
_VERIFIED = ("ssl.fail_verify_error", "ssl.fail_verify_san", "ssl.fail_verify_cert_hash")
COUNTERS = (
    r"(cluster_manager\.cds|listener_manager\.lds)\.(update_.*|version_text)|"
    r"listener_manager\..*|cluster_manager\.active_clusters|server\.(live|state|memory_.*)|"
    rf"listener\.{INGRESS}\.(no_filter_chain_match|ssl\..*|downstream_cx_.*)|"
    r"tcp\.(in|out)/.*\.downstream_cx_(no_route|total|[rt]x_bytes_total)|"
    rf"cluster\.{PEER}.*\.(membership_(healthy|total)|health_check\.(attempt|success)|"
    r"ssl\.(fail_verify_.*|handshake|session_reused)|upstream_cx_(active|total|connect_fail))|"
    rf"cluster\.{ALIVE}.*\.(membership_healthy|health_check\.attempt|ssl\.fail_verify_.*)|"
    rf"cluster\.{UDP_PEER}.*\.membership_healthy"
)
"""Regular expression of the counters that Envoy keeps; others would only take memory."""

Counters = Mapping[str, int]


class Checked(NamedTuple):
    """A peer's Envoy clusters with health checks."""

    addresses: int
    """Number of the peer's addresses."""
    alive: str
    """Cluster that checks whether the peer's gateways work; GatewayPeers in several namespaces share it."""


class PeerHealth(msgspec.Struct, frozen=True):
    """Number of a peer's addresses that answer, and the reason if none does."""

    healthy: int
    total: int
    reason: str
    handshakes: int = 0
    refused: int = 0
    """Number of refused certificates of the peer since Envoy started."""
    admissions: int | None = None
    """Number of passed checks of admission when the shared check of the peer last passed; None if it never has."""

    @property
    def ready(self) -> bool:
        """True if at least one address of the peer answers."""
        return self.healthy > 0


class Traffic(msgspec.Struct, frozen=True):
    """TCP traffic between this gateway and a peer since its Envoy started."""

    calling: int
    """Connections from clients in this cluster to the peer."""
    called: int
    """Connections from the peer: of clients in its cluster, and health checks."""
    sent: int
    """Bytes sent to the peer, on connections in both directions."""
    received: int
    """Bytes received from the peer, on connections in both directions."""


def traffic(counters: Counters, peers: Iterable[str]) -> dict[str, Traffic]:
    """Return the TCP traffic by peer."""
    found = {}
    for peer in peers:
        ours, theirs = (
            [counters.get(f"tcp.{way}/{peer}.downstream_cx_{each}", 0) for each in _PASSED] for way in ("out", "in")
        )
        # Envoy counts bytes from local clients as received (rx), and this gateway sends them to the peer.
        found[peer] = Traffic(ours[0], theirs[0], ours[1] + theirs[2], ours[2] + theirs[1])
    return found


def refusals(counters: Counters) -> dict[str, int]:
    """Return the number of refused connections to this gateway, by reason."""
    found = dict.fromkeys(REASONS, 0)
    for name, reason in _REFUSALS.items():
        found[reason] = counters.get(f"listener.{INGRESS}.{name}", 0)
    found[_NOT_LINKED] = sum(
        value
        for name, value in counters.items()
        if name.startswith("tcp.in/") and name.endswith(".downstream_cx_no_route")
    )
    return found


def takes_udp(counters: Counters, cluster: str) -> bool:
    """Return True if a peer answers for a UDP port of a Service: it supports UDP and admits this cluster to the port.

    :param cluster: name of the Envoy cluster that represents the port
    """
    return counters.get(f"cluster.{cluster}.membership_healthy", 0) > 0


def health(counters: Counters, peers: Mapping[str, Checked], before: Mapping[str, PeerHealth]) -> dict[str, PeerHealth]:
    """Return the health of each peer.

    :param before: previous result; a reason follows from the counters that have grown since
    """
    return {peer: _health(counters, peer, checked, before.get(peer)) for peer, checked in peers.items()}


def _health(counters: Counters, peer: str, checked: Checked, before: PeerHealth | None) -> PeerHealth:
    prefix, shared = f"cluster.{PEER}{peer}.", f"cluster.{checked.alive}."
    total = checked.addresses
    alive, admitted = (min(counters.get(each + "membership_healthy", 0), total) for each in (shared, prefix))
    handshakes = counters.get(prefix + "ssl.handshake", 0)
    refused = sum(counters.get(way + each, 0) for way in (prefix, shared) for each in _VERIFIED)
    passed = counters.get(prefix + "health_check.success", 0)
    admissions = passed if alive else before.admissions if before else None
    if admissions is not None and passed < admissions:
        # Envoy has started again, and counts from zero.
        admissions = 0
    # Gateways of an older version answer only the checks of admission.
    older = not alive and passed > (admissions or 0)
    healthy = admitted if older else alive if admitted else 0
    if not total:
        reason = "NotExposed"
    elif healthy:
        reason = "Connected"
    elif alive:
        reason = "NotAdmitted"
    elif refused > (before.refused if before else 0):
        reason = "CertificateRefused"
    elif admissions is None and handshakes > (before.handshakes if before else 0):
        # The peer's certificate is valid, but it does not answer: it has another CA for this cluster, or no link.
        reason = "NotAdmitted"
    else:
        reason = _lasting(before, admissions)
    return PeerHealth(healthy, total, reason, handshakes, refused, admissions)


def _lasting(before: PeerHealth | None, admissions: int | None) -> str:
    """Return the reason why a peer does not answer if no counter has grown since."""
    if before is None or before.ready or not before.total:
        return "PeerUnreachable"
    return "PeerUnreachable" if admissions is not None and before.reason == "NotAdmitted" else before.reason
