"""Status of gateways that clusters publish."""

from typing import Any

import pytest

from agent.api.names import ANNOTATION_CLUSTER_UID
from agent.api.names.links import ANNOTATION_GATEWAY, CA_LIMIT
from agent.model.gatewaytold import Told, exposed, flaw, read, write

Raw = dict[str, Any]


def test_what_is_told_is_read() -> None:
    told = Told("CA", ("203.0.113.7:15443", "gw.example.org:443"))
    assert read({ANNOTATION_GATEWAY: write(told)}) == told
    assert read({ANNOTATION_GATEWAY: write(Told("CA"))}) == Told("CA")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"ca": ""}',
        '{"ca": "CA", "addresses": ["x"]}',
        '{"ca": "CA", "addresses": [1]}',
        "[" * 9999,
    ],
)
def test_what_cannot_be_read_is_no_gateway(text: str) -> None:
    assert read({ANNOTATION_GATEWAY: text}) is None


def test_too_much_is_no_gateway() -> None:
    assert read(None) is read({}) is None
    assert read({ANNOTATION_GATEWAY: write(Told("A" * 70000))}) is None
    assert read({ANNOTATION_GATEWAY: write(Told("CA", tuple(f"h{n}:1" for n in range(17))))}) is None


def service(type: str, *ingress: Raw, name: str = "gateway") -> Raw:
    port = {"name": name, "port": 15443, **({"nodePort": 30001} if type == "NodePort" else {})}
    return {"spec": {"type": type, "ports": [port]}, "status": {"loadBalancer": {"ingress": list(ingress)}}}


def node(name: str, *addresses: tuple[str, str], ready: str = "True") -> Raw:
    told = [{"type": type, "address": address} for type, address in addresses]
    status = {"addresses": told, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "status": status}


NODES = [
    node("a", ("InternalIP", "192.0.2.1"), ("ExternalIP", "203.0.113.1")),
    node("b", ("Hostname", "b"), ("InternalIP", "192.0.2.2")),
    node("c", ("InternalIP", "192.0.2.3"), ready="False"),
    node("d"),
]


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (service("LoadBalancer", {"ip": "203.0.113.9"}), ["203.0.113.9:15443"]),
        (service("LoadBalancer", {"hostname": "lb.example.org"}), ["lb.example.org:15443"]),
        (service("LoadBalancer", {"ip": "2001:db8::9"}), ["[2001:db8::9]:15443"]),
        (service("LoadBalancer"), []),
        (service("LoadBalancer", {}), []),
        (service("NodePort"), ["192.0.2.2:30001", "203.0.113.1:30001"]),
        (service("ClusterIP"), []),
        (service("NodePort", name="metrics"), []),
    ],
)
def test_a_service_is_reached_at_its_load_balancer_or_at_nodes(given: Raw, want: list[str]) -> None:
    assert exposed(given, NODES, "gateway") == want


DUAL = [
    node("a", ("InternalIP", "192.0.2.2"), ("InternalIP", "2001:db8::2")),
    node("b", ("InternalIP", "2001:db8::1"), ("InternalIP", "192.0.2.1"), ("ExternalIP", "203.0.113.1")),
]


@pytest.mark.parametrize(
    ("families", "want"),
    [
        (["IPv4", "IPv6"], ["192.0.2.2:30001", "[2001:db8::2]:30001", "203.0.113.1:30001"]),
        (["IPv6", "IPv4"], ["[2001:db8::2]:30001", "192.0.2.2:30001", "203.0.113.1:30001"]),
        (["IPv4"], ["192.0.2.2:30001", "203.0.113.1:30001"]),
        (["IPv6"], ["[2001:db8::1]:30001", "[2001:db8::2]:30001"]),
    ],
)
def test_nodes_are_called_at_addresses_of_the_services_ip_families(families: list[str], want: list[str]) -> None:
    given = service("NodePort")
    given["spec"]["ipFamilies"] = families
    assert sorted(exposed(given, DUAL, "gateway")) == sorted(want)


UID = {ANNOTATION_CLUSTER_UID: "8b1f6b0e-0f2c-4f0c-9a55-3f1d4f3b7a10"}


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        (None, ""),
        ({}, ""),
        (UID, ""),
        (UID | {ANNOTATION_GATEWAY: write(Told("A" * CA_LIMIT, ("gw.example.org:443",)))}, ""),
        (UID | {ANNOTATION_GATEWAY: write(Told("A" * (CA_LIMIT + 1)))}, "ca: it has to have 1 to 32768 characters"),
        (UID | {ANNOTATION_GATEWAY: write(Told("CA", ("x",)))}, "addresses: 'x' is not HOST:PORT"),
        (UID | {ANNOTATION_GATEWAY: write(Told("CA", (f"{'h' * 300}:1",)))}, "is not HOST:PORT"),
        (UID | {ANNOTATION_GATEWAY: write(Told("CA", ("h:1",) * 17))}, "addresses: there are more than 16"),
        (UID | {ANNOTATION_GATEWAY: "{"}, "it is no JSON"),
        (UID | {ANNOTATION_GATEWAY: "A" * 70000}, "it is longer than"),
        ({ANNOTATION_GATEWAY: write(Told("CA"))}, "cluster-uid of its ClusterSummary is no UID"),
        ({ANNOTATION_GATEWAY: write(Told("CA")), ANNOTATION_CLUSTER_UID: "u" * 128}, "is no UID of a cluster"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_field(annotations: dict[str, str] | None, says: str) -> None:
    found = flaw(annotations)
    assert says in found
    assert bool(found) is bool(says)
    assert len(found) < 500
