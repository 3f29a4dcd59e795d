"""GatewayPeers, as sources write them and gateways read them."""

from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.model import gatewaypeer
from agent.model.gatewaylink import (
    Shared,
    document,
    is_shared_by,
    leads_to,
    locals_of,
    manifest,
    ports_of,
    step,
)
from agent.model.gatewaypeer import TCP, UDP, Called, Offered, Protocol
from agent.model.gatewaytold import Told

Raw = dict[str, Any]

OWN, SOURCE, OTHER = "uid-own", "uid-source", "uid-other"
HTTP = (("http", 80),)


def peer(name: str = "eu", source: str = SOURCE, **fields: Any) -> Raw:
    found = manifest(
        name,
        "shop",
        source,
        fields.get("uid", OTHER),
        Told("CA", ("203.0.113.7:15443",)),
        fields.get("services", ()),
        fields.get("offered", ()),
    )
    found["metadata"] |= {"creationTimestamp": fields.get("created", "2026-01-01T00:00:00Z"), "uid": "uid-of-it"}
    return found | ({"status": fields["status"]} if "status" in fields else {})


def slice(service: str = "web", source: str = SOURCE, *, own: str = OWN, **fields: Any) -> Raw:
    label = {names.LABEL_GLOBAL: "true"} if source == own else {names.LABEL_PARENT_CLUSTER_UID: source}
    labels = {names.LABEL_SERVICE_NAME: service, **label, **fields.get("labels", {})}
    return {
        "metadata": {"namespace": fields.get("namespace", "shop"), "name": f"{service}-x", "labels": labels},
        "addressType": fields.get("family", "IPv4"),
        "ports": fields.get("ports", [{"name": "http", "port": 8080}]),
        "endpoints": fields.get("endpoints", [{"addresses": ["10.1.0.5"], "conditions": {"ready": True}}]),
    }


@pytest.mark.parametrize(
    ("ready", "told"), [(-1, 0), (0, 0), (1, 1), (4, 4), (5, 4), (7, 6), (15, 12), (500, 384), (9999, 512)]
)
def test_of_ready_endpoints_a_step_is_told(ready: int, told: int) -> None:
    assert step(ready) == told


def test_a_peer_says_who_is_called_and_who_may_call() -> None:
    found = peer(services=[Shared("web", HTTP, 5)], offered=[Shared("db", (("", 5432),))])
    assert found["metadata"]["labels"] == {names.LABEL_PARENT_CLUSTER_UID: SOURCE}
    assert found["spec"] == {
        "uid": OTHER,
        "ca": "CA",
        "addresses": ["203.0.113.7:15443"],
        "services": [{"name": "web", "ports": [{"name": "http", "port": 80}], "ready": 4}],
        "offered": [{"name": "db", "ports": [{"name": "", "port": 5432}]}],
    }


DNS = (("dns", 53),)
DNS_PORT = [{"name": "dns", "port": 53}]


def test_udp_ports_are_told_apart_from_tcp_ports_and_not_at_all_where_there_are_none() -> None:
    both, alone = Shared("both", DNS, 5, DNS), Shared("alone", (), 1, DNS)
    spec = peer(services=[both, alone], offered=[alone])["spec"]
    assert spec["services"] == [{"name": "both", "ports": DNS_PORT, "ready": 4}]
    assert spec["udpServices"] == [
        {"name": "alone", "ports": DNS_PORT, "ready": 1},
        {"name": "both", "ports": DNS_PORT, "ready": 4},
    ]
    assert (spec["offered"], spec["udpOffered"]) == ([], [{"name": "alone", "ports": DNS_PORT}])
    assert not {"udpServices", "udpOffered"} & peer(services=[Shared("web", HTTP)])["spec"].keys()


def test_a_gateway_calls_udp_ports_at_local_ports_of_their_own() -> None:
    status = {
        "services": [{"name": "dns", "ports": [{"port": 53, "locals": [20000]}]}],
        "udpServices": [{"name": "dns", "ports": [{"port": 53, "locals": [20001]}]}],
    }
    given = peer(services=[Shared("dns", DNS, 1, DNS)], status=status)
    assert locals_of(given) == {("dns", 53, TCP): (20000,), ("dns", 53, UDP): (20001,)}
    (found,) = document(OWN, [given], []).peers
    assert found.services == (Called("dns", 53, (20000,)), Called("dns", 53, (20001,), protocol=UDP))


def test_offered_udp_ports_have_the_endpoints_of_theirs() -> None:
    ports = [{"name": "dns", "port": 5353, "protocol": "UDP"}, {"name": "dns-tcp", "port": 5300}]
    offered = [Shared("web", (("dns-tcp", 53),), 0, DNS)]
    found = document(OWN, [peer(offered=offered)], [slice(ports=ports)])
    assert found.peers[0].offered == (Offered("web", 53), Offered("web", 53, protocol=UDP))
    assert {(each.protocol, each.endpoints) for each in found.services} == {
        (TCP, ("10.1.0.5:5300",)),
        (UDP, ("10.1.0.5:5353",)),
    }
    # A port of that name with another protocol does not count.
    found = document(OWN, [peer(offered=offered)], [slice(ports=[{"name": "dns", "port": 5353}])])
    assert {each.endpoints for each in found.services} == {()}


@pytest.mark.parametrize(
    ("protocol", "spec", "ports"),
    [
        (TCP, {"ports": [{"port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}, (("", 80),)),
        (UDP, {"ports": [{"port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]}, DNS),
        (UDP, {"ports": [{"port": 80, "protocol": "SCTP"}]}, ()),
        (TCP, {}, ()),
    ],
)
def test_ports_of_a_service_are_told_by_protocol(protocol: Protocol, spec: Raw, ports: Any) -> None:
    assert ports_of(spec, protocol) == ports


def test_a_gateway_calls_what_has_local_ports() -> None:
    status = {"services": [{"name": "web", "ports": [{"port": 80, "locals": [20000, 20001]}]}]}
    given = peer(services=[Shared("web", (("http", 80), ("admin", 9000)), 2)], status=status)
    (found,) = document(OWN, [given], []).peers
    assert found.services == (Called("web", 80, (20000, 20001)),)
    assert (found.key, found.uid, found.ca, found.addresses) == ("shop/eu", OTHER, "CA", ("203.0.113.7:15443",))


@pytest.mark.parametrize(
    ("fields", "endpoints"),
    [
        ({}, ("10.1.0.5:8080",)),
        ({"family": "IPv6", "endpoints": [{"addresses": ["fd00::5"]}]}, ("[fd00::5]:8080",)),
        ({"endpoints": [{"addresses": ["10.1.0.5"], "conditions": {"ready": False}}]}, ()),
        # A proxy pod: its containers run in a target.
        ({"endpoints": [{"addresses": ["10.1.0.5"], "nodeName": "admiralty-shop-us"}]}, ()),
        ({"endpoints": [{"addresses": ["10.1.0.5"], "nodeName": "admiral"}]}, ("10.1.0.5:8080",)),
        ({"ports": [{"name": "other", "port": 8080}]}, ()),
        ({"ports": [{"name": "http"}]}, ()),
        ({"ports": None}, ()),
        ({"endpoints": None}, ()),
        ({"family": "FQDN", "endpoints": [{"addresses": ["db.example.org"]}]}, ()),
        ({"namespace": "bank"}, ()),
        # Endpoints in other clusters are not offered to a third one.
        ({"labels": {names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER}}, ()),
        ({"labels": {names.LABEL_SLICE_MANAGED_BY: "gateway.flotilla"}}, ()),
    ],
)
def test_offered_are_ready_pods_of_the_own_cluster(fields: Raw, endpoints: tuple[str, ...]) -> None:
    found = document(OWN, [peer(offered=[Shared("web", HTTP)])], [slice(**fields)])
    assert found.peers[0].offered == (Offered("web", 80),)
    (service,) = found.services
    assert (service.namespace, service.name, service.port, service.endpoints) == ("shop", "web", 80, endpoints)


@pytest.mark.parametrize(
    ("writer", "of_service", "offered"),
    [
        (SOURCE, SOURCE, True),
        (OWN, OWN, True),
        (SOURCE, OTHER, False),
        (SOURCE, OWN, False),
        (OWN, SOURCE, False),
        ("", SOURCE, False),
    ],
)
def test_a_source_offers_what_it_has_shared_itself(writer: str, of_service: str, offered: bool) -> None:
    found = document(OWN, [peer(source=writer, offered=[Shared("web", HTTP)])], [slice(source=of_service)])
    assert bool(found.peers[0].offered) is offered
    assert bool(found.services) is offered


def test_labels_of_nobody_are_shared_by_nobody() -> None:
    assert not is_shared_by({names.LABEL_PARENT_CLUSTER_UID: ""}, "", OWN)
    assert not is_shared_by({}, OWN, OWN)


def test_of_two_peers_for_one_cluster_the_older_one_counts() -> None:
    late, early = peer("a", created="2026-02-01T00:00:00Z"), peer("b")
    judged = gatewaypeer.Reader().read(msgspec.json.encode(document(OWN, [late, early], [])))
    assert [each.name for each in judged.gateway.peers] == ["b"]
    assert "shop/a" in judged.problems


LISTENS = {"healthy": 1, "listens": [20000, 20001]}


@pytest.mark.parametrize(
    ("leads", "programmed", "locals_", "says"),
    [
        (True, "True", [20000], LISTENS),
        (True, "True", [20000, 20001], LISTENS),
        (False, "True", [20000, 20002], LISTENS),
        (False, "True", [], LISTENS),
        (False, "False", [20000], LISTENS),
        (False, "True", [20000], LISTENS | {"healthy": 0}),
    ],
    ids=["one port", "two", "one that is not listened at", "none", "not programmed", "the peer does not answer"],
)
def test_gateways_lead_to_a_service_once_one_of_them_listens_for_it_and_the_peer_answers(
    leads: bool, programmed: str, locals_: list[int], says: Raw
) -> None:
    status = {
        "services": [{"name": "web", "ports": [{"port": 80, "locals": locals_}]}],
        "conditions": [{"type": "Programmed", "status": programmed}],
        "gateways": {"one": {"healthy": 0, "listens": []}, "two": says},
    }
    assert leads_to(peer(services=[Shared("web", HTTP, 1)], status=status), "web") is leads
    assert not leads_to(peer(status=status), "db")


@pytest.mark.parametrize(("listens", "leads"), [([20000, 20001], True), ([20000], False)])
def test_gateways_lead_to_a_service_once_they_do_by_tcp_and_udp(listens: list[int], leads: bool) -> None:
    status = {
        "services": [{"name": "dns", "ports": [{"port": 53, "locals": [20000]}]}],
        "udpServices": [{"name": "dns", "ports": [{"port": 53, "locals": [20001]}]}],
        "conditions": [{"type": "Programmed", "status": "True"}],
        "gateways": {"one": {"healthy": 1, "listens": listens}},
    }
    assert leads_to(peer(services=[Shared("dns", DNS, 1, DNS)], status=status), "dns") is leads


def test_gateways_that_have_said_nothing_lead_nowhere() -> None:
    assert not leads_to(peer(services=[Shared("web", HTTP, 1)]), "web")


def test_a_service_is_led_to_while_others_of_the_peer_get_no_local_ports() -> None:
    status = {
        "services": [{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}],
        "conditions": [{"type": "Programmed", "status": "False", "reason": "NoPort", "message": ""}],
        "gateways": {"gw-1": LISTENS},
    }
    given = peer(services=[Shared("web", HTTP, 1), Shared("db", HTTP, 1)], status=status)
    assert leads_to(given, "web")
    assert not leads_to(given, "db")


def test_a_service_is_not_led_to_while_one_of_its_ports_has_no_local_port() -> None:
    status = {
        "services": [{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}],
        "conditions": [{"type": "Programmed", "status": "False", "reason": "NoPort", "message": ""}],
        "gateways": {"gw-1": LISTENS},
    }
    web = Shared("web", (("http", 80), ("metrics", 9090)), 1)
    assert not leads_to(peer(services=[web], status=status), "web")
    status["services"][0]["ports"].append({"port": 9090, "locals": [20001]})
    assert leads_to(peer(services=[web], status=status), "web")
