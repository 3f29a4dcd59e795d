"""Services that represent hosts of remote headless Services, and the slices that find them."""

from typing import Any

import pytest

from agent.api import names
from agent.api.names.derived import gateway_host
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_HOST, LABEL_GATEWAY_PEER, LABEL_HEADLESS_OF
from agent.model.endpoints import HEADLESS_LABEL
from agent.model.gatewayhosts import Headless, Host
from agent.model.hostservices import host_services, manifest, slices
from agent.model.service import is_shared
from agent.model.servicemarks import shared
from tests.model.test_gatewayhosts import DB, TCP, allotted, telling
from tests.model.test_gatewayslices import ONE, TWO, says

Raw = dict[str, Any]

NAME = gateway_host("db", "db-0", "eu")
ADDRESSES = {NAME: ["10.96.0.7", "fd00:96::7"]}


def made(peer: Raw, pods: Any = (ONE, TWO), family: str = "IPv4", addresses: Any = ADDRESSES) -> dict[str, list[Raw]]:
    """Return the slices by the Service that they belong to."""
    found: dict[str, list[Raw]] = {}
    for each in slices(peer, host_services(peer, {"db"}), pods, family, addresses):
        found.setdefault(each["metadata"]["labels"][names.LABEL_SERVICE_NAME], []).append(each)
    return found


def test_a_host_has_a_service_that_selects_nothing_and_is_shared_with_nobody() -> None:
    peer = telling(DB)
    (one,) = host_services(peer, {"db"})
    found = manifest(peer, one)
    assert found["metadata"]["labels"] == {
        LABEL_GATEWAY_PEER: "eu",
        LABEL_HEADLESS_OF: "db",
        LABEL_GATEWAY_HOST: "db-0",
    }
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-of-it"
    # Not even if its namespace shares all of its Services.
    assert not is_shared(shared(found)["metadata"].get("annotations"))
    ports = [{"name": "tcp", "port": 5432, "protocol": "TCP", "targetPort": 5432}]
    assert found["spec"] == {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ports": ports}
    assert host_services(peer, {"web"}) == []


def test_names_of_such_services_are_names_of_services_and_all_different() -> None:
    every = [(service, host, peer) for service in ("a", "a" * 63) for host in ("", "b-0", "b" * 63) for peer in "xy"]
    found = {gateway_host(*each) for each in every}
    assert len(found) == len(every)
    assert all(len(each) <= 63 and each[0].isalpha() and "--" not in each for each in found)
    assert gateway_host("db", "db-0", "eu").startswith("db-db-0-")


def test_a_service_of_a_host_leads_to_the_own_gateways_and_its_address_stands_under_the_hosts_name() -> None:
    status = {"headless": [allotted(20000)], "gateways": {"gw-1": says(20000), "gw-2": says()}}
    found = made(telling(DB, status=status))
    (of_host,), (of_headless,) = found[NAME], found["db"]
    assert of_host["ports"] == [{"name": "tcp", "port": 20000, "protocol": "TCP"}]
    assert [each["conditions"]["ready"] for each in of_host["endpoints"]] == [True, False]
    assert of_headless["ports"] == [{"name": "tcp", "port": 5432, "protocol": "TCP"}]
    want = {"addresses": ["10.96.0.7"], "hostname": "db-0", "conditions": {"ready": True}}
    assert of_headless["endpoints"] == [want]
    labels = of_headless["metadata"]["labels"]
    assert labels[names.LABEL_SLICE_MANAGED_BY] == GATEWAY_SLICE_MANAGER
    assert labels[HEADLESS_LABEL] == ""
    assert HEADLESS_LABEL not in of_host["metadata"]["labels"]


@pytest.mark.parametrize(
    ("family", "addresses", "want"),
    [
        ("IPv4", ADDRESSES, ["10.96.0.7"]),
        ("IPv6", ADDRESSES, ["fd00:96::7"]),
        ("IPv6", {NAME: ["10.96.0.7"]}, []),
        ("IPv4", {}, []),
    ],
)
def test_in_each_family_a_host_has_the_address_of_that_family(family: str, addresses: Raw, want: list[str]) -> None:
    found = made(telling(DB, status={"headless": [allotted(20000)]}), family=family, addresses=addresses).get("db", [])
    assert [each["addresses"][0] for slice in found for each in slice["endpoints"]] == want


@pytest.mark.parametrize(
    ("ready", "gateways"),
    [(1, {"gw-1": says(20000, healthy=0)}), (1, {"gw-1": says()}), (1, {}), (0, {"gw-1": says(20000)})],
    ids=["the peer does not answer", "nobody listens", "nobody says", "no pod is ready"],
)
def test_a_host_that_is_not_reached_is_not_ready_and_keeps_its_address(ready: int, gateways: Raw) -> None:
    given = Headless("db", TCP, (Host("db-0", ready),))
    found = made(telling(given, status={"headless": [allotted(20000)], "gateways": gateways}))
    want = {"addresses": ["10.96.0.7"], "hostname": "db-0", "conditions": {"ready": False}}
    assert found["db"][0]["endpoints"] == [want]


def test_pods_without_a_host_name_have_one_address_together_and_as_many_endpoints_as_they_weigh() -> None:
    given = Headless("db", TCP, (Host("", 4),))
    status = {"headless": [allotted(20000, 20001, host="")], "gateways": {"gw-1": says(20000, 20001)}}
    name = gateway_host("db", "", "eu")
    found = made(telling(given, status=status), addresses={name: ["10.96.0.9"]})
    assert [each["ports"][0]["port"] for each in found[name]] == [20000, 20001]
    assert found["db"][0]["endpoints"] == [{"addresses": ["10.96.0.9"], "conditions": {"ready": True}}]


def test_hosts_with_other_ports_are_in_a_slice_of_their_own() -> None:
    other = Headless("db", (("tcp", 6000),), (Host("db-1", 1),))
    addresses = {**ADDRESSES, gateway_host("db", "db-1", "eu"): ["10.96.0.8"]}
    found = made(telling(DB, other), addresses=addresses)["db"]
    assert [each["ports"][0]["port"] for each in found] == [5432, 6000]
    assert len({each["metadata"]["name"] for each in found}) == 2


def test_without_gateways_nothing_leads_anywhere() -> None:
    assert made(telling(DB), pods=()) == {}
