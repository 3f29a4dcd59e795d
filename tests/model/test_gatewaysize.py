"""Size of the Envoy configuration that GatewayPeers require, and the parts omitted above the limit."""

from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from agent.model.envoy import file
from agent.model.envoybuilder import resources
from agent.model.envoyparts import Place
from agent.model.gatewayallocation import Allocation
from agent.model.gatewayhosts import EVERY_CALLED, EVERY_OFFERED, Headless, Host, with_hosts
from agent.model.gatewaylink import Shared, document
from agent.model.gatewaysize import (
    CLUSTER,
    FILES_LIMIT,
    LISTENER,
    Cost,
    Key,
    Limits,
    Served,
    entries,
    limits,
    priced,
    served_by,
    trimmed,
)
from tests.model.test_gatewayhosts import telling
from tests.model.test_gatewaylink import HTTP, OWN, peer, slice

Raw = dict[str, Any]
LARGE = Limits(float("inf"), float("inf"))


class Fitted(NamedTuple):
    """GatewayPeers with their accepted part, and the number of rejected entries by GatewayPeer."""

    peers: list[Raw]
    left_out: dict[Key, int]


def fit(own: str, peers: list[Raw], slices: list[Raw], limit: Limits, before: Served = MappingProxyType({})) -> Fitted:
    """Divide the limits among all namespaces at once."""
    allocation = Allocation(limit, entries(before))
    found = dict[str, list[Raw]]()
    for namespace in dict.fromkeys(each["metadata"]["namespace"] for each in peers):
        there = priced(own, [each for each in peers if each["metadata"]["namespace"] == namespace], slices)
        allocation.update(namespace, there.costs)
        found[namespace] = there.peers
    allocation.settle()
    left = {at: count for namespace in found for at, count in allocation.left_out(namespace).items()}
    kept = [each for namespace, some in found.items() for each in trimmed(some, allocation.kept(namespace))]
    return Fitted(kept, left)


def names_in(peers: list[Raw]) -> Served:
    """Return the names of all Services of GatewayPeers."""
    return {
        (peer["metadata"]["namespace"], peer["metadata"]["name"]): {
            field: tuple(each["name"] for each in peer["spec"][field])
            for field in (*EVERY_CALLED, *EVERY_OFFERED)
            if peer["spec"].get(field)
        }
        for peer in peers
    }


def calling(namespace: str, count: int, name: str = "eu", created: str = "2026-01-01T00:00:00Z") -> Raw:
    """Return a GatewayPeer with this many Services, each with one local port."""
    services = [Shared(f"payment-service-{number:05}", HTTP, 1) for number in range(count)]
    told = [
        {"name": each.name, "ports": [{"port": 80, "locals": [20000 + number]}]} for number, each in enumerate(services)
    ]
    found = peer(name, services=services, status={"services": told}, created=created)
    found["metadata"]["namespace"] = namespace
    return found


def room(listeners: int, peers: int) -> Limits:
    """Return limits that exactly this many local ports of this many GatewayPeers fill."""
    return Limits(LISTENER.memory * listeners + 0.2 * 2**20 * peers + 8.0 * peers, float("inf"))


def served(found: Fitted) -> dict[str, int]:
    """Return the number of called Services by namespace."""
    return {each["metadata"]["namespace"]: len(each["spec"]["services"]) for each in found.peers}


def test_what_fits_is_left_as_it_is() -> None:
    given = [calling("shop", 3), calling("bank", 2)]
    found = fit(OWN, given, [], room(5, 2))
    assert sorted(found.peers, key=str) == sorted(given, key=str)
    assert found.left_out == {}


def test_of_too_much_every_namespace_gets_its_share_and_what_is_left_out_is_counted() -> None:
    found = fit(OWN, [calling("hog", 1000), calling("bank", 20), calling("shop", 30)], [], room(200, 3))
    assert served(found) == {"hog": 150, "bank": 20, "shop": 30}
    assert found.left_out == {("hog", "eu"): 850}


def test_what_is_served_stays_when_others_come_and_these_get_a_part_in_any_case() -> None:
    first = fit(OWN, [calling("hog", 150)], [], room(160, 1))
    assert served(first) == {"hog": 150}
    more = [calling("hog", 150), calling("bank", 200, created="2025-01-01T00:00:00Z")]
    found = fit(OWN, more, [], room(160, 2), names_in(first.peers))
    # A sixteenth is guaranteed, including one part for the GatewayPeer itself.
    assert 140 <= served(found)["hog"] < 160 - served(found)["bank"] + 1
    assert 8 <= served(found).get("bank", 0) <= 20
    again = fit(OWN, more, [], room(160, 2), names_in(found.peers))
    assert (again.peers, again.left_out) == (found.peers, found.left_out)


def test_the_input_file_has_the_names_of_what_is_served() -> None:
    dns = (("dns", 53),)
    local = [{"name": "dns", "ports": [{"port": 53, "locals": [20000]}]}]
    of_host = {"name": "db", "host": "db-1", "ports": [{"port": 5432, "locals": [20002]}]}
    udp = [{"name": "dns", "ports": [{"port": 53, "locals": [20001]}]}]
    given = telling(
        Headless("db", (("tcp", 5432),), (Host("db-1", 1),)),
        status={"services": local, "udpServices": udp, "headless": [of_host]},
    )
    both = peer(services=[Shared("dns", dns, 1, dns)], offered=[Shared("web", HTTP, 0, dns)])["spec"]
    given["spec"] |= {field: both[field] for field in ("services", "udpServices", "offered", "udpOffered")}
    slices = [slice("web"), slice("db")]
    found = fit(OWN, [given], slices, LARGE)
    file = with_hosts(document(OWN, found.peers, slices), found.peers, slices)
    assert served_by(file) == names_in(found.peers)
    assert {field for fields in served_by(file).values() for field in fields} > {
        "udpServices",
        "udpOffered",
        "headless",
    }


def test_of_a_namespace_what_is_served_comes_before_what_is_new() -> None:
    first = fit(OWN, [calling("shop", 10, "b")], [], room(100, 1))
    found = fit(OWN, [calling("shop", 10, "a"), calling("shop", 10, "b")], [], room(15, 2), names_in(first.peers))
    assert {each["metadata"]["name"]: len(each["spec"]["services"]) for each in found.peers} == {"a": 5, "b": 10}
    assert found.left_out == {("shop", "a"): 5}


def test_a_peer_that_does_not_fit_at_all_is_left_out_whole() -> None:
    large = calling("shop", 5)
    large["spec"]["ca"] = "x" * 32768
    found = fit(OWN, [large, calling("bank", 1)], [], Limits(0.4 * 2**20 + 2 * LISTENER.memory + 1000))
    assert served(found) == {"bank": 1}
    assert found.left_out == {("shop", "eu"): 6}


def offering(count: int, ports: int, *names: str) -> Raw:
    told = tuple((f"p{number}", number + 1) for number in range(ports))
    return peer(offered=[Shared(name, told) for name in (*names, *(f"ghost-{number}" for number in range(count)))])


def test_offered_services_without_slices_of_the_same_source_are_not_built() -> None:
    given = offering(5000, 20, "web", "db")
    found = fit(OWN, [given], [slice("web"), slice("db", "uid-of-another")], LARGE)
    assert [each["name"] for each in found.peers[0]["spec"]["offered"]] == ["web"]
    assert found.left_out == {}


def test_hosts_times_ports_of_headless_services_that_do_not_exist_are_not_built() -> None:
    ports = tuple((f"p{number}", number + 1) for number in range(100))
    hosts = tuple(Host(f"db-{number}") for number in range(100))
    given = telling(*(Headless(f"db-{number}", ports, hosts) for number in range(50)))
    (found,) = fit(OWN, [given], [], LARGE).peers
    assert found["spec"].get("headless", []) == found["spec"].get("offeredHeadless", []) == []


def test_each_endpoint_of_each_port_counts() -> None:
    many = slice("web", endpoints=[{"addresses": [f"10.1.{number // 250}.{number % 250}"]} for number in range(2000)])
    assert fit(OWN, [offering(0, 4, "web")], [many], Limits(40 * 2**20)).left_out == {}
    assert fit(OWN, [offering(0, 40, "web")], [many], Limits(40 * 2**20)).left_out == {("shop", "eu"): 1}


@pytest.mark.parametrize("kind", ["listeners", "clusters"])
def test_files_are_no_larger_than_was_estimated(kind: str) -> None:
    count, place = 500, Place("/run/flotilla-gateway", 15443)
    if kind == "listeners":
        given, slices, cost = calling("a-namespace-with-a-rather-long-name", count), list[Raw](), LISTENER
    else:
        given, slices, cost = offering(0, count, "web"), [slice("web")], CLUSTER
    found = resources(document(OWN, [given], slices), place)
    written = [len(file(getattr(found, each))[1]) for each in ("clusters", "listeners")]
    assert sum(written) + max(written) < cost.times(count).files * 1.1


def test_limits_are_those_of_the_container_and_of_the_volume() -> None:
    assert limits(0) == Limits(float("inf"), FILES_LIMIT)
    # 2,000 Services with four local ports each, and as many offered ones, fit into the chart's 512 MiB.
    both = Cost().plus(LISTENER.times(8_000)).plus(CLUSTER.times(2_000))
    assert limits(512 * 2**20).part(both) < 1.0
    assert limits(16 * 2**20).memory > 0


def test_the_problem_names_the_limits_and_the_remedy() -> None:
    assert limits(512 * 2**20).problem(0, "shop") == ""
    assert limits(512 * 2**20).problem(7, "shop") == (
        "gateways leave out 7 of its Services: the GatewayPeers of all namespaces together need more than 396 MiB of"
        " Envoy's memory or 56 MiB of its files: share fewer Services of namespace shop by gateways, or raise"
        " gateway.resources.limits.memory of the chart"
    )
    assert "Envoy's memory" not in limits(0).problem(7, "shop")
