"""Status of Services in GatewayPeers, and the Services whose status has changed."""

from typing import Any

import pytest

from agent.model.gatewayhosts import Headless
from agent.model.gatewaylink import Shared
from agent.model.gatewaysaid import UNTOLD, answers, changed, udp_taken, unreached
from tests.model.test_gatewayhosts import DB, GOOD, allotted, telling
from tests.model.test_gatewaylink import DNS, HTTP, peer

Raw = dict[str, Any]

WEB = Shared("web", HTTP, 1)
ANSWERS = [*GOOD, {"type": "Connected", "status": "True", "message": ""}]
SILENT = [*GOOD, {"type": "Connected", "status": "False", "reason": "PeerUnreachable", "message": ""}]


@pytest.mark.parametrize(
    ("udp", "locals_", "listens", "taken"),
    [
        (DNS, [20001], [20000, 20001], True),
        (DNS, [20001], [20000], False),
        (DNS, [], [20000], False),
        ((), [20001], [20000, 20001], None),
    ],
)
def test_udp_is_taken_where_a_gateway_listens_for_it(
    udp: Any, locals_: list[int], listens: list[int], taken: Any
) -> None:
    status = {
        "services": [{"name": "dns", "ports": [{"port": 53, "locals": [20000]}]}],
        "udpServices": [{"name": "dns", "ports": [{"port": 53, "locals": locals_}]}],
        "gateways": {"one": {"healthy": 1, "listens": listens}},
    }
    assert udp_taken(peer(services=[Shared("dns", DNS, 1, udp)], status=status)).get("dns") is taken


@pytest.mark.parametrize(
    ("found", "status", "want"),
    [
        ((DB,), {"headless": [allotted(20000)]}, None),
        ((), {}, ("Unknown", "Pending", "upgrade the chart there")),
        ((DB,), {}, ("False", "NoService", "set --gateway-headless of the agent there")),
        ((DB,), {"conditions": [{**GOOD[0], "message": "quota"}]}, ("False", "NoService", "quota")),
    ],
    ids=["each has an address", "not told", "no agent has made any", "and says why"],
)
def test_why_hosts_are_not_reached(found: tuple[Headless, ...], status: Raw, want: tuple[str, str, str] | None) -> None:
    got = unreached(telling(*found, status=status)).get("db", UNTOLD)
    if want is None:
        assert got is None
    else:
        assert got is not None
        assert (got.status, got.reason) == want[:2]
        assert want[2] in got.message


def saying(*services: Shared, conditions: list[Raw] = ANSWERS, **status: Any) -> Raw:
    return peer(services=services, status={"conditions": conditions, **status})


def taking(*ports: int) -> Raw:
    """Return the status of gateways that listen at these ports, with a UDP port allotted to the Service `dns`."""
    udp = [{"name": "dns", "ports": [{"port": 53, "locals": [20009]}]}]
    return {"udpServices": udp, "gateways": {"one": {"healthy": 1, "listens": list(ports)}}}


BOTH = (WEB, Shared("dns", DNS, 1, DNS))


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (None, saying(*BOTH), {"web", "dns"}),
        (saying(*BOTH), None, {"web", "dns"}),
        (saying(*BOTH), saying(*BOTH), set()),
        (saying(*BOTH), saying(*BOTH, conditions=SILENT), {"web", "dns"}),
        (saying(WEB), saying(*BOTH), {"dns"}),
        (saying(*BOTH), saying(WEB), {"dns"}),
        (saying(WEB), saying(WEB._replace(ready=4)), set()),
        (saying(*BOTH, **taking(20000)), saying(*BOTH, **taking(20000, 20001)), set()),
        (saying(*BOTH, **taking(20000)), saying(*BOTH, **taking(20000, 20009)), {"dns"}),
        (telling(), telling(DB), {"db"}),
        (telling(DB), telling(DB, status={"headless": [allotted(20000)]}), {"db"}),
        (telling(DB, status={"headless": [allotted()]}), telling(DB, status={"headless": [allotted(1)]}), set()),
    ],
    ids=[
        "a peer comes",
        "it goes",
        "nothing is new",
        "it is silent",
        "another Service is called",
        "no more",
        "more endpoints",
        "gateways listen at a TCP port",
        "at a UDP port",
        "hosts are told",
        "they get addresses",
        "and ports",
    ],
)
def test_of_which_services_a_peer_says_something_else(old: Raw | None, new: Raw | None, want: set[str]) -> None:
    assert changed(old, new) == want


NO_PORT = [{"type": "Programmed", "status": "False", "reason": "NoPort", "message": "no local ports for db"}]


@pytest.mark.parametrize(
    ("service", "programmed", "want"),
    [
        ("web", NO_PORT, ("True", "Connected")),
        ("db", NO_PORT, ("False", "NoPort")),
        ("", NO_PORT, ("False", "NoPort")),
        ("web", [{**NO_PORT[0], "reason": "NoService"}], ("False", "NoService")),
    ],
    ids=["it has local ports", "it has none", "the peer", "an agent of before"],
)
def test_services_with_local_ports_work_while_others_get_none(
    service: str, programmed: list[Raw], want: tuple[str, str]
) -> None:
    status = {"services": [{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}]}
    given = saying(WEB, Shared("db", HTTP, 1), conditions=[*programmed, *ANSWERS[1:]], **status)
    found = answers(given, service)
    assert (found.status, found.reason) == want


def test_hosts_with_local_ports_work_while_others_get_none() -> None:
    conditions = [*NO_PORT, *ANSWERS[1:]]
    assert answers(telling(DB, status={"headless": [allotted(20000)], "conditions": conditions}), "db").status == "True"
    assert answers(telling(DB, status={"headless": [], "conditions": conditions}), "db").reason == "NoPort"


def test_a_link_hears_of_a_service_that_gets_no_local_ports() -> None:
    status = {"services": [{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}]}
    services = (WEB, Shared("db", HTTP, 1))
    refused = saying(*services, conditions=[*NO_PORT, *ANSWERS[1:]], **status)
    assert changed(saying(*services, **status), refused) == {"db"}
