import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.cluster import INTERVAL_SECONDS
from agent.gateway.envoystate import SILENT_SECONDS
from agent.gateway.loop import LOOK_SECONDS
from agent.model import envoy, envoybuilder
from agent.model.envoyparts import NOTICED_SECONDS, Encoded, Place, Resources
from agent.model.gatewaypeer import (
    TCP,
    UDP,
    Called,
    Gateway,
    Offered,
    Peer,
    Protocol,
    Service,
    alive_name,
    health_name,
    server_name,
)

PLACE = Place("/run/gateway", 15443)


def peer(
    name: str, calls: int = 0, offers: int = 0, protocol: Protocol = TCP, *, address: str = "203.0.113.1:15443"
) -> Peer:
    first = 20000 + 100 * ord(name[0])
    called = tuple(Called(f"their-{n}", 80, (first + n,), protocol=protocol) for n in range(calls))
    offered = tuple(Offered(f"own-{n}", 80, protocol=protocol) for n in range(offers))
    return Peer(name, "shop", f"uid-{name}", f"CA {name}", (address,) if address else (), called, offered)


SERVICES = tuple(
    Service("shop", f"own-{n}", 80, (f"10.0.0.{n + 1}:8080",), protocol=each) for n in range(3) for each in (TCP, UDP)
)


def resources(*peers: Peer, services: tuple[Service, ...] = SERVICES) -> Resources:
    return envoybuilder.resources(Gateway("uid-here", peers, services), PLACE)


def clusters(*peers: Peer, services: tuple[Service, ...] = SERVICES) -> dict[str, Any]:
    return decoded(resources(*peers, services=services).clusters)


def listeners(*peers: Peer) -> dict[str, Any]:
    return decoded(resources(*peers).listeners)


def decoded(content: Encoded) -> dict[str, Any]:
    return {name: msgspec.json.decode(each) for name, each in content.items()}


def named(listener: bytes) -> set[str]:
    """Return the clusters that a listener routes traffic to."""
    found = set(re.findall(r'"cluster":"([^"]+)"', listener.decode()))
    return found - {"refused"}


gateways = st.lists(
    st.builds(peer, st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 3), st.sampled_from([TCP, UDP])),
    unique_by=lambda each: each.name,
).map(lambda peers: resources(*peers))


@given(gateways, gateways)
def test_a_listener_never_leads_to_a_cluster_that_is_not_there(old: Resources, new: Resources) -> None:
    have = {envoy.CLUSTERS: old.clusters, envoy.LISTENERS: old.listeners}
    steps = envoy.steps(old, new)
    for name, content in steps:
        have[name] = content
        for listener in have[envoy.LISTENERS].values():
            assert named(listener) <= have[envoy.CLUSTERS].keys()
    assert have == {envoy.CLUSTERS: new.clusters, envoy.LISTENERS: new.listeners}
    assert len(steps) <= 3
    assert envoy.steps(new, new) == []


def test_new_endpoints_are_one_write_and_leave_listeners_alone() -> None:
    old = resources(peer("a", offers=1))
    new = resources(peer("a", offers=1), services=(Service("shop", "own-0", 80, ("10.0.0.9:8080",)),))
    assert [name for name, _ in envoy.steps(old, new)] == [envoy.CLUSTERS]


def test_what_a_peer_may_call_is_named_for_it_alone() -> None:
    peers = peer("a", offers=2), peer("b", offers=1)
    assert resources(*peers).clusters.keys() == {
        "own",
        "alive",
        *(f"alive/{each.gateways}" for each in peers),
        "peer/shop/a",
        "peer/shop/b",
        *(health_name("shop", f"uid-{each}", "uid-here") for each in "ab"),
        *(server_name("shop", f"own-{n}", 80, "uid-a", "uid-here") for n in range(2)),
        server_name("shop", "own-0", 80, "uid-b", "uid-here"),
    }


def test_what_is_offered_of_a_service_that_is_none_is_not_there() -> None:
    assert resources(given := peer("a", offers=1), services=()).clusters.keys() == {
        "own",
        "alive",
        f"alive/{given.gateways}",
        "peer/shop/a",
        health_name("shop", "uid-a", "uid-here"),
    }


def test_a_chain_stays_as_it_is_when_links_come_and_go() -> None:
    def chain(*peers: Peer) -> Any:
        return listeners(*peers)["gateway"]["filter_chains"][1]

    assert chain(peer("a")) == chain(peer("a", calls=2, offers=3)) == chain(peer("a"), peer("b"))


def test_each_chain_has_the_ca_and_the_name_of_its_peer_and_no_other() -> None:
    _, *chains = listeners(peer("a"), peer("b"))["gateway"]["filter_chains"]
    for chain, name in zip(chains, "ab", strict=True):
        tls = chain["transport_socket"]["typed_config"]
        trusted = tls["common_tls_context"]["validation_context"]
        assert tls["require_client_certificate"] is True
        assert trusted["trusted_ca"] == {"inline_string": f"CA {name}"}
        assert trusted["match_typed_subject_alt_names"] == [
            {"san_type": "URI", "matcher": {"exact": f"spiffe://uid-{name}/gateway"}}
        ]
        assert len(chain["filter_chain_match"]["server_names"]) == 1


def test_a_peer_that_is_not_exposed_may_call_and_is_not_called() -> None:
    given = peer("a", calls=1, offers=1, address="")
    assert clusters(given)["peer/shop/a"]["load_assignment"]["endpoints"] == []
    assert not any(name.startswith("alive/") for name in clusters(given))
    assert listeners(given).keys() == {"gateway", "health"}


def test_names_of_hosts_are_looked_up_and_addresses_are_not() -> None:
    def kind(address: str) -> Any:
        return clusters(peer("a", address=address))["peer/shop/a"]["type"]

    assert kind("gateway.example.com:443") == "STRICT_DNS"
    assert kind("203.0.113.1:443") == kind("[2001:db8::1]:443") == "STATIC"


def test_without_peers_only_the_check_whether_a_gateway_works_is_answered() -> None:
    (chain,) = listeners()["gateway"]["filter_chains"]
    assert chain["filter_chain_match"] == {"server_names": [alive_name("uid-here")]}
    (proxy,) = chain["filters"]
    endpoints = clusters()[proxy["typed_config"]["cluster"]]["load_assignment"]["endpoints"]
    addresses = [each["endpoint"]["address"]["socket_address"] for each in endpoints[0]["lb_endpoints"]]
    assert addresses == [{"address": "127.0.0.1", "port_value": 19903}]


def test_gateways_of_one_peer_are_checked_once_for_all_namespaces_and_admission_seldom() -> None:
    shop = peer("a", calls=1)
    bank = msgspec.structs.replace(shop, namespace="bank", services=())
    moved = msgspec.structs.replace(bank, namespace="desk", addresses=("203.0.113.2:15443",))
    found = clusters(shop, bank, moved)
    often = [name for name, each in found.items() for check in each.get("health_checks", ()) if frequent(check)]
    assert often == [f"alive/{shop.gateways}", f"alive/{moved.gateways}"]
    assert found["peer/bank/a"]["health_checks"][0]["no_traffic_healthy_interval"] == "30s"


def frequent(check: dict[str, Any]) -> bool:
    return min(seconds(check, "interval"), seconds(check, "no_traffic_healthy_interval")) < 30


def test_a_files_version_says_what_is_in_it() -> None:
    one, two = resources(peer("a")), resources(peer("b"))
    assert envoy.file(one.clusters) == envoy.file(resources(peer("a")).clusters)
    assert envoy.file(one.clusters)[0] != envoy.file(two.clusters)[0]
    version, content = envoy.file(one.listeners)
    assert msgspec.json.decode(content) == {"version_info": version, "resources": list(decoded(one.listeners).values())}


def seconds(check: dict[str, Any], field: str) -> float:
    return float(str(check[field]).removesuffix("s"))


@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_a_peer_that_is_silent_has_no_ready_endpoints_after_twelve_seconds(protocol: Protocol) -> None:
    every = clusters(given := peer("a", calls=1, protocol=protocol))
    udp = [each for name, each in every.items() if name.startswith("udp/")]
    for cluster in (every[f"alive/{given.gateways}"], *udp):
        for check in cluster["health_checks"]:
            assert check["unhealthy_threshold"] == 2
            one = seconds(check, "timeout")
            # Envoy may have checked just before; a cluster without traffic has another check interval.
            called = seconds(check, "interval") + one + seconds(check, "unhealthy_edge_interval") + one
            unused = seconds(check, "no_traffic_healthy_interval") + one + seconds(check, "no_traffic_interval") + one
            assert max(called, unused) <= NOTICED_SECONDS
    # The agent reads and publishes the counters; two seconds remain for the agent and kube-proxy.
    assert max(NOTICED_SECONDS, SILENT_SECONDS) + LOOK_SECONDS + INTERVAL_SECONDS <= 12 - 2


def test_what_is_gone_has_ended_within_ten_seconds() -> None:
    arguments = envoy.arguments("/run/gateway")
    assert int(arguments[arguments.index("--drain-time-s") + 1]) < 10
