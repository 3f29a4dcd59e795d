"""UDP in Envoy's files: chains, clusters and listeners of ports that are UDP."""

from typing import Any

import msgspec
import pytest

from agent.model import envoybuilder, envoyudp
from agent.model.envoyparts import Place, Resources
from agent.model.gatewaypeer import TCP, UDP, Called, Gateway, Offered, Peer, Protocol, Service, server_name

Raw = dict[str, Any]

PLACE = Place("/run/gateway", 15443)
ONE, TWO, THREE = "10.0.0.1:5353", "10.0.0.2:5353", "10.0.0.3:5353"
NAME = server_name("shop", "dns", 53, "uid-a", "uid-here", protocol=UDP)


def resources(*endpoints: str, services: bool = True, protocols: tuple[Protocol, ...] = (UDP,)) -> Resources:
    """Return resources for the Service `dns`, which is called in and offered to the cluster `a`."""
    called = tuple(Called("dns", 53, (20000 + n,), protocol=each) for n, each in enumerate(protocols))
    offered = tuple(Offered("dns", 53, protocol=each) for each in protocols)
    peer = Peer("a", "shop", "uid-a", "CA a", ("203.0.113.1:15443",), called, offered)
    own = tuple(Service("shop", "dns", 53, endpoints, protocol=each) for each in protocols)
    return envoybuilder.resources(Gateway("uid-here", (peer,), own if services else ()), PLACE)


def cluster(found: Resources, name: str) -> Raw:
    return msgspec.json.decode(found.clusters[name], type=Raw)


def listener(found: Resources, name: str) -> Raw:
    return msgspec.json.decode(found.listeners[name], type=Raw)


def chains(found: Resources) -> dict[str, Raw]:
    return {each["name"]: each for each in listener(found, "gateway")["filter_chains"]}


def udp_chain(found: Resources) -> Raw:
    return chains(found)["shop/a/dns/53/udp"]


def test_without_udp_nothing_of_it_is_in_any_file() -> None:
    found = resources(ONE, protocols=(TCP,))
    for content in (found.clusters, found.listeners):
        assert "udp" not in b"".join((*content.values(), *(name.encode() for name in content))).decode().lower()


def test_a_port_that_is_offered_has_a_chain_that_leads_to_its_endpoints_alone() -> None:
    found = resources(ONE, TWO)
    chain = udp_chain(found)
    assert chain["filter_chain_match"] == {"server_names": [NAME]}
    tls = chain["transport_socket"]["typed_config"]
    assert tls["require_client_certificate"] is True
    assert (
        tls["common_tls_context"]["validation_context"]
        == (chains(found)["shop/a"]["transport_socket"]["typed_config"]["common_tls_context"]["validation_context"])
    )
    (config,) = (each["typed_config"] for each in chain["filters"])
    (host,) = config["route_config"]["virtual_hosts"]
    routes = [each["route"]["cluster"] for each in host["routes"] if "route" in each]
    assert routes == [f"{NAME}/udp"]
    endpoints = cluster(found, f"{NAME}/udp")["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert [each["endpoint"]["address"]["socket_address"]["address"] for each in endpoints] == ["10.0.0.1", "10.0.0.2"]


def test_no_server_name_that_a_peers_tcp_takes_is_that_of_a_udp_cluster() -> None:
    (taken,) = chains(resources(ONE))["shop/a"]["filter_chain_match"]["server_names"]
    suffix = taken.removeprefix("*")
    assert NAME.endswith(suffix)
    assert not [name for name in resources(ONE).clusters if name.endswith(suffix) and "udp" in name]
    assert NAME not in resources(ONE).clusters


def test_one_number_is_a_port_of_tcp_and_another_of_udp() -> None:
    found = resources(ONE, protocols=(TCP, UDP))
    assert {server_name("shop", "dns", 53, "uid-a", "uid-here"), f"{NAME}/udp"} <= found.clusters.keys()
    names = {"gateway", "health", "shop/a/dns/53/20000", "udp/shop/a/dns/53/20001"}
    assert found.listeners.keys() == names
    addresses = [listener(found, name)["address"]["socket_address"] for name in sorted(names)[2:]]
    assert [(each.get("protocol", TCP), each["port_value"]) for each in addresses] == [(TCP, 20000), (UDP, 20001)]


def test_a_port_that_is_called_has_a_cluster_of_the_peer_with_its_own_server_name() -> None:
    made = cluster(resources(ONE), "udp/shop/a/dns/53")
    tls = made["transport_socket"]["typed_config"]
    assert tls["sni"] == server_name("shop", "dns", 53, "uid-here", "uid-a", protocol=UDP)
    assert tls["common_tls_context"]["validation_context"]["trusted_ca"] == {"inline_string": "CA a"}
    (limits,) = made["circuit_breakers"]["thresholds"]
    assert limits["max_connections"] == limits["max_requests"] == envoyudp.SESSIONS


def test_a_port_that_is_offered_twice_has_one_chain() -> None:
    offered = (Offered("dns", 53, protocol=UDP), Offered("dns", 53, protocol=UDP))
    peer = Peer("a", "shop", "uid-a", "CA a", (), (), offered)
    own = (Service("shop", "dns", 53, (ONE,), protocol=UDP),)
    found = envoybuilder.resources(Gateway("uid-here", (peer,), own), PLACE)
    named = [each["name"] for each in listener(found, "gateway")["filter_chains"]]
    assert named == ["alive", "shop/a", "shop/a/dns/53/udp"]


def test_what_is_offered_of_a_service_that_is_none_has_no_chain() -> None:
    assert chains(resources(services=False)).keys() == {"alive", "shop/a"}


@pytest.mark.parametrize(
    ("before", "after", "anew"),
    [
        ((ONE, TWO), (ONE, TWO), False),
        ((ONE,), (ONE, TWO), False),
        ((), (ONE,), False),
        ((ONE, TWO), (ONE,), True),
        ((ONE,), (), True),
        ((ONE, TWO), (ONE, THREE), True),
    ],
)
def test_sessions_begin_anew_when_an_endpoint_has_gone(
    before: tuple[str, ...], after: tuple[str, ...], anew: bool
) -> None:
    old = envoyudp.renewed(Resources(), resources(*before))
    new = envoyudp.renewed(old, resources(*after))
    assert (udp_chain(old) != udp_chain(new)) is anew
    assert chains(old)["shop/a"] == chains(new)["shop/a"]
    # The chain stays unchanged until the next endpoint is removed.
    assert udp_chain(envoyudp.renewed(new, resources(*after, "10.0.0.9:5353"))) == udp_chain(new)
    assert envoyudp.renewed(new, resources(*after)) == new


def test_each_endpoint_that_goes_counts() -> None:
    one = envoyudp.renewed(Resources(), resources(ONE, TWO, THREE))
    two = envoyudp.renewed(one, resources(ONE, TWO))
    three = envoyudp.renewed(two, resources(ONE))
    assert len({msgspec.json.encode(udp_chain(each)) for each in (one, two, three)}) == 3


def test_with_tcp_alone_files_stay_as_they_are_made() -> None:
    old, new = resources(ONE, TWO, protocols=(TCP,)), resources(ONE, protocols=(TCP,))
    assert envoyudp.renewed(old, new) is new
