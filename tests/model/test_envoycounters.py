import re

import pytest

from agent.model.envoycounters import COUNTERS, Checked, PeerHealth, Traffic, health, refusals, takes_udp, traffic

PEER = "shop/us"


def counters(**found: int) -> dict[str, int]:
    return {f"cluster.peer/{PEER}.{name.replace('__', '.')}": value for name, value in found.items()}


def alive(healthy: int, **found: int) -> dict[str, int]:
    return {"cluster.alive/1f.membership_healthy": healthy, **counters(**found)}


LOST = PeerHealth(0, 2, "PeerUnreachable", handshakes=5, refused=3)
CONNECTED = PeerHealth(2, 2, "Connected", admissions=7)


@pytest.mark.parametrize(
    ("found", "before", "reason"),
    [
        (alive(1, membership_healthy=1), None, "Connected"),
        (alive(1, membership_healthy=1, ssl__fail_verify_san=9), LOST, "Connected"),
        (alive(2), None, "NotAdmitted"),
        # The seldom check of admission passed before the gateways became silent.
        (alive(0, membership_healthy=1, health_check__success=7), CONNECTED, "PeerUnreachable"),
        (alive(0, ssl__handshake=9), CONNECTED, "PeerUnreachable"),
        (alive(0), PeerHealth(0, 2, "NotAdmitted", admissions=7), "PeerUnreachable"),
        # Gateways of an older version answer no shared check.
        (alive(0, membership_healthy=1, health_check__success=8), CONNECTED, "Connected"),
        (counters(membership_healthy=1, health_check__success=1), None, "Connected"),
        (counters(), None, "PeerUnreachable"),
        (counters(ssl__fail_verify_error=1), None, "CertificateRefused"),
        (counters(ssl__fail_verify_san=4, ssl__handshake=9), LOST, "CertificateRefused"),
        (counters(ssl__fail_verify_san=3, ssl__handshake=6), LOST, "NotAdmitted"),
        (counters(ssl__fail_verify_san=3, ssl__handshake=5), LOST, "PeerUnreachable"),
        # No counter changes between two checks: the last result stays valid.
        (counters(ssl__handshake=5), PeerHealth(0, 2, "NotAdmitted", handshakes=5), "NotAdmitted"),
        # The peer was ready a moment ago, with many handshakes.
        (counters(ssl__handshake=5), PeerHealth(1, 2, "Connected", handshakes=5), "PeerUnreachable"),
    ],
)
def test_a_peer_is_ready_where_one_address_answers_and_else_it_is_told_why(
    found: dict[str, int], before: PeerHealth | None, reason: str
) -> None:
    told = health(found, {PEER: Checked(2, "alive/1f")}, {PEER: before} if before else {})[PEER]
    assert told.reason == reason
    assert told.ready is (reason == "Connected")


def test_an_older_peer_is_ready_after_envoy_has_started_again() -> None:
    told, peers = {PEER: CONNECTED}, {PEER: Checked(2, "alive/1f")}
    for passed in (0, 1):
        told = health(counters(membership_healthy=passed, health_check__success=passed), peers, told)
    assert told[PEER].reason == "Connected"


def test_a_peer_without_addresses_is_not_exposed() -> None:
    assert health(counters(), {PEER: Checked(0, "alive/1f")}, {})[PEER] == PeerHealth(0, 0, "NotExposed")


def test_peers_that_are_none_any_more_are_not_told() -> None:
    assert health(counters(membership_healthy=1), {}, {PEER: LOST}) == {}


def test_refusals_are_told_by_reason() -> None:
    found = {
        "listener.gateway.no_filter_chain_match": 1,
        "listener.gateway.ssl.fail_verify_error": 2,
        "listener.gateway.ssl.fail_verify_san": 3,
        "listener.gateway.ssl.fail_verify_no_cert": 4,
        "tcp.in/shop/us.downstream_cx_no_route": 5,
        "tcp.in/prod/eu.downstream_cx_no_route": 6,
        "tcp.out/shop/us.downstream_cx_no_route": 7,
    }
    assert refusals(found) == {
        "UnknownPeer": 1,
        "CertificateRefused": 2,
        "CertificateOfAnother": 3,
        "NoCertificate": 4,
        "NotLinked": 11,
    }
    assert all(re.fullmatch(COUNTERS, name) for name in found)


@pytest.mark.parametrize(("healthy", "takes"), [(0, False), (1, True)])
def test_a_peer_takes_udp_where_it_answers_for_that_port(healthy: int, takes: bool) -> None:
    name = "cluster.udp/shop/us/dns/53.membership_healthy"
    assert re.fullmatch(COUNTERS, name)
    assert takes_udp({name: healthy}, "udp/shop/us/dns/53") is takes
    assert not takes_udp({}, "udp/shop/us/dns/53")


def test_what_passes_is_told_by_peer_and_by_direction_whoever_has_called() -> None:
    found = {
        "tcp.out/shop/us.downstream_cx_total": 3,
        "tcp.out/shop/us.downstream_cx_rx_bytes_total": 100,
        "tcp.out/shop/us.downstream_cx_tx_bytes_total": 2000,
        "tcp.in/shop/us.downstream_cx_total": 4,
        "tcp.in/shop/us.downstream_cx_rx_bytes_total": 30000,
        "tcp.in/shop/us.downstream_cx_tx_bytes_total": 400000,
    }
    assert traffic(found, ["shop/us", "shop/eu"]) == {
        "shop/us": Traffic(3, 4, 400100, 32000),
        "shop/eu": Traffic(0, 0, 0, 0),
    }
    assert all(re.fullmatch(COUNTERS, name) for name in found)
