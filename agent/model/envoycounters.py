"""What Envoy's counters say of a gateway: whether each peer answers, why not, and whom it has refused. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

INGRESS = "gateway"
"""The listener that peers call, and what its counters begin with."""
PEER = "peer/"
"""What clusters of Envoy begin with that stand for peers."""
UDP_PEER = "udp/"
"""And those that stand for a UDP port of a peer's Service."""
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
    rf"cluster\.{PEER}.*\.(membership_(healthy|total)|health_check\.attempt|"
    r"ssl\.(fail_verify_.*|handshake|session_reused)|upstream_cx_(active|total|connect_fail))|"
    rf"cluster\.{UDP_PEER}.*\.membership_healthy"
)
"""Those that are kept; others would only take memory."""

Counters = Mapping[str, int]


class PeerHealth(msgspec.Struct, frozen=True):
    """How many addresses of a peer answer, and what is wrong where none does."""

    healthy: int
    total: int
    reason: str
    handshakes: int = 0
    refused: int = 0
    """How many certificates of the peer were refused so far."""

    @property
    def ready(self) -> bool:
        """Whether the peer can be called."""
        return self.healthy > 0


class Traffic(msgspec.Struct, frozen=True):
    """What has passed between this gateway and a peer by TCP since its Envoy started."""

    calling: int
    """Connections of callers here."""
    called: int
    """Connections from the peer: of callers there, and to ask how this gateway is."""
    sent: int
    """Bytes, by whoever called."""
    received: int


def traffic(counters: Counters, peers: Iterable[str]) -> dict[str, Traffic]:
    """What has passed, by peer."""
    found = {}
    for peer in peers:
        ours, theirs = (
            [counters.get(f"tcp.{way}/{peer}.downstream_cx_{each}", 0) for each in _PASSED] for way in ("out", "in")
        )
        # Of what callers here send, this gateway's Envoy is the receiver.
        found[peer] = Traffic(ours[0], theirs[0], ours[1] + theirs[2], ours[2] + theirs[1])
    return found


def refusals(counters: Counters) -> dict[str, int]:
    """How many connections of others were refused, by reason."""
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
    """Whether a peer answers for a UDP port of a Service: it has such ports, and admits us to this one."""
    return counters.get(f"cluster.{cluster}.membership_healthy", 0) > 0


def health(counters: Counters, peers: Mapping[str, int], before: Mapping[str, PeerHealth]) -> dict[str, PeerHealth]:
    """How peers are.

    :param peers: how many addresses each has
    :param before: what was said last: reasons are told by what has been counted since
    """
    return {peer: _health(counters, peer, total, before.get(peer)) for peer, total in peers.items()}


def _health(counters: Counters, peer: str, total: int, before: PeerHealth | None) -> PeerHealth:
    prefix = f"cluster.{PEER}{peer}."
    healthy = min(counters.get(prefix + "membership_healthy", 0), total)
    handshakes = counters.get(prefix + "ssl.handshake", 0)
    refused = sum(counters.get(prefix + each, 0) for each in _VERIFIED)
    if not total:
        reason = "NotExposed"
    elif healthy:
        reason = "Connected"
    elif refused > (before.refused if before else 0):
        reason = "CertificateRefused"
    elif handshakes > (before.handshakes if before else 0):
        # It shows the right certificate, and does not answer: it knows another CA of ours, or no link.
        reason = "NotAdmitted"
    else:
        reason = before.reason if before and before.total and not before.ready else "PeerUnreachable"
    return PeerHealth(healthy, total, reason, handshakes, refused)
