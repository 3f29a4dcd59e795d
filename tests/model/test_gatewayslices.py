"""EndpointSlices that select the local gateways, and the ports that represent remote Services."""

from typing import Any

import pytest

from agent.model.gatewaylink import Shared
from agent.model.gatewayslices import Pod, connected, slices, weight
from tests.model.test_gatewaylink import HTTP, peer

Raw = dict[str, Any]
ONE, TWO = Pod("gw-1", "10.9.0.1"), Pod("gw-2", "10.9.0.2")


def allotted(*ports: int) -> Raw:
    return {"services": [{"name": "web", "ports": [{"port": 80, "locals": list(ports)}]}]}


def says(*ports: int, healthy: int = 1, reason: str = "Connected") -> Raw:
    return {"healthy": healthy, "total": 1, "reason": reason, "listens": list(ports)}


@pytest.mark.parametrize(
    ("ready", "gateways", "want"), [(0, 2, 1), (1, 2, 1), (3, 2, 2), (4, 1, 4), (100, 2, 8), (5, 0, 5)]
)
def test_many_pods_elsewhere_are_several_endpoints_at_each_gateway(ready: int, gateways: int, want: int) -> None:
    assert weight(ready, gateways) == want


def test_a_slice_leads_to_the_own_gateways() -> None:
    status = {**allotted(20000), "gateways": {"gw-1": says(20000), "gw-2": says()}}
    given = peer(services=[Shared("web", HTTP, 1)], status=status)
    (found,) = slices(given, [ONE, TWO], "IPv4", {"web"})
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-of-it"
    assert found["ports"] == [{"name": "http", "port": 20000, "protocol": "TCP"}]
    assert found["endpoints"] == [
        {"addresses": ["10.9.0.1"], "conditions": {"ready": True}},
        # The gateway does not listen there yet.
        {"addresses": ["10.9.0.2"], "conditions": {"ready": False}},
    ]


def test_udp_ports_are_in_slices_of_their_own_that_may_be_not_ready_alone() -> None:
    udp = {"udpServices": [{"name": "web", "ports": [{"port": 80, "locals": [20001]}]}]}
    # The peer answers, but does not accept UDP.
    status = {**allotted(20000), **udp, "gateways": {"gw-1": says(20000)}}
    found = slices(peer(services=[Shared("web", HTTP, 1, HTTP)], status=status), [ONE], "IPv4", {"web"})
    told = [(each["ports"], each["endpoints"][0]["conditions"]["ready"]) for each in found]
    assert told == [
        ([{"name": "http", "port": 20000, "protocol": "TCP"}], True),
        ([{"name": "http", "port": 20001, "protocol": "UDP"}], False),
    ]
    assert len({each["metadata"]["name"] for each in found}) == 2


@pytest.mark.parametrize(
    ("pod", "says_it", "ready"),
    [
        (ONE, says(20000), 1),
        (ONE._replace(ready=False), says(20000), 1),
        (ONE, says(20000, healthy=0), 1),
        (ONE, None, 1),
        (ONE, says(20000), 0),
    ],
)
def test_an_endpoint_is_ready_when_the_peer_answers_it(pod: Pod, says_it: Raw | None, ready: int) -> None:
    status = {**allotted(20000), "gateways": {"gw-1": says_it} if says_it else {}}
    (found,) = slices(peer(services=[Shared("web", HTTP, ready)], status=status), [pod], "IPv4", {"web"})
    well = pod.ready and ready and says_it and says_it["healthy"]
    assert found["endpoints"][0]["conditions"]["ready"] is bool(well)


@pytest.mark.parametrize(
    ("ready", "locals_", "pods", "services", "want"),
    [
        (4, (20000, 20001), [ONE, TWO], {"web"}, 2),
        (4, (20000,), [ONE, TWO], {"web"}, 1),
        (1, (20000, 20001), [ONE], {"web"}, 1),
        (1, (20000,), [], {"web"}, 0),
        (1, (20000,), [ONE], {"db"}, 0),
        (1, (), [ONE], {"web"}, 0),
    ],
)
def test_there_is_a_slice_for_each_weight(
    ready: int, locals_: tuple[int, ...], pods: list[Pod], services: set[str], want: int
) -> None:
    given = peer(services=[Shared("web", HTTP, ready)], status=allotted(*locals_))
    found = slices(given, pods, "IPv4", services)
    assert len({each["metadata"]["name"] for each in found}) == len(found) == want


@pytest.mark.parametrize(
    ("pods", "gateways", "status", "reason"),
    [
        ([], {"gw-1": says()}, "False", "NoGateway"),
        ([ONE], {}, "Unknown", "Pending"),
        ([ONE], {"gw-9": says()}, "Unknown", "Pending"),
        ([ONE, TWO], {"gw-1": says(healthy=0, reason="PeerUnreachable"), "gw-2": says()}, "True", "Connected"),
        ([ONE], {"gw-1": says(healthy=0, reason="NotAdmitted")}, "False", "NotAdmitted"),
    ],
)
def test_a_peer_is_connected_when_it_answers_any_gateway(
    pods: list[Pod], gateways: Raw, status: str, reason: str
) -> None:
    found = connected(peer(status={"gateways": gateways}), pods)
    assert (found.status, found.reason) == (status, reason)
    assert found.message or status == "True"


def test_what_a_gateway_says_is_refused_is_told_of_a_peer_that_answers() -> None:
    said = {"reason": "Connected", "healthy": 1, "total": 1, "listens": [20000]}
    gateways = {"gw-0": {**said, "message": "Envoy refuses port 20001"}, "gw-1": {**said, "message": ""}}
    found = connected(peer(status={"gateways": gateways}), [Pod("gw-0", "10.0.0.1"), Pod("gw-1", "10.0.0.2")])
    assert (found.status, found.message) == ("True", "gw-0: Envoy refuses port 20001")
