"""Resulting endpoints of links between pairs of clusters."""

from dataclasses import replace
from typing import Any

import pytest

from agent.model.links import LOCAL_NAME, NO_GATEWAY, Link, Peer, links, peer
from agent.model.pod_networks import ANSWERS, Networks
from agent.model.podranges import network


def nets(*cidrs: str) -> Networks:
    return tuple(found for found in map(network, cidrs) if found is not None)


US = Peer("us", "True", "EndpointSlices", f"network driver endpointslices; {ANSWERS}", nets("10.1.0.0/16"))
EU = replace(US, name="eu", networks=nets("10.2.0.0/16"))


def found(*peers: Peer) -> list[tuple[str, str, str, str, str]]:
    return [(each.one, each.other, each.driver, each.ready, each.reason) for each in links(peers)]


@pytest.mark.parametrize(
    ("status", "reason", "message", "want"),
    [
        ("", "", "", ("", "Unknown", "Pending")),
        ("True", "EndpointSlices", ANSWERS, ("endpointslices", "True", "Connected")),
        ("True", "EndpointSlices", "not verified", ("endpointslices", "True", "Unverified")),
        ("True", "MCS", "", ("mcs", "True", "Unverified")),
        ("True", "Cilium", ANSWERS, ("cilium", "True", "Unverified")),
        ("True", "Off", "", ("", "False", "NoPath")),
        ("False", "Forbidden", "may not list", ("", "False", "Forbidden")),
        ("False", "InvalidNetworkDriver", "is no driver", ("", "False", "InvalidNetworkDriver")),
        ("False", "PodNetworksOverlap", "10.1.0.0/16", ("", "False", "PodNetworksOverlap")),
        ("False", "PodNetworkUnreachable", "answers", ("", "False", "PodNetworkUnreachable")),
    ],
)
def test_a_pair_with_this_cluster_is_as_its_target_says(
    status: str, reason: str, message: str, want: tuple[str, str, str]
) -> None:
    (link,) = links([Peer("us", status, reason, message)])
    assert (link.one, link.other) == (LOCAL_NAME, "us")
    assert (link.driver, link.ready, link.reason) == want
    assert message in link.message
    assert link.is_home


def test_two_targets_are_a_pair_of_their_own() -> None:
    assert found(US, EU)[2:] == [("us", "eu", "endpointslices", "True", "Unverified")]


def between(one: Peer, other: Peer) -> Link:
    link = links([one, other])[2]
    assert not link.is_home
    return link


@pytest.mark.parametrize(
    ("other", "ready", "reason", "message"),
    [
        (replace(EU, networks=nets("10.1.7.0/24")), "False", "NoPath", "10.1.7.0/24 is in the pod networks of both"),
        (replace(EU, networks=()), "True", "Unverified", "nobody can ask"),
        (replace(EU, reason="MCS"), "False", "NoPath", "us has the driver endpointslices, eu mcs: annotate both"),
        (replace(EU, reason="Off"), "False", "NoPath", "eu: its Target is annotated"),
        (replace(EU, status="False", reason="Forbidden"), "False", "Forbidden", "eu: "),
        (replace(EU, status=""), "Unknown", "Pending", "eu: "),
    ],
)
def test_what_keeps_two_targets_apart(other: Peer, ready: str, reason: str, message: str) -> None:
    link = between(US, other)
    assert (link.ready, link.reason) == (ready, reason)
    assert message in link.message


@pytest.mark.parametrize("other", [replace(EU, networks=nets("10.1.7.0/24")), replace(EU, reason="MCS")])
def test_gateways_lead_from_target_to_target_where_nothing_else_does(other: Peer) -> None:
    link = between(replace(US, no_gateway=""), replace(other, no_gateway=""))
    assert (link.driver, link.ready, link.reason) == ("gateway", "True", "Unverified")
    link = between(replace(US, no_gateway=""), replace(other, no_gateway="its Source may not list gatewaypeers"))
    assert (link.driver, link.ready, link.reason) == ("", "False", "NoPath")
    assert link.message.endswith("; or have them use gateways (eu: its Source may not list gatewaypeers)")
    assert between(US, other).message.endswith(f"; or have them use gateways (us: {NO_GATEWAY}; eu: {NO_GATEWAY})")


def test_a_mesh_does_not_go_by_what_networks_nodes_name() -> None:
    one, other = (replace(each, reason="Cilium", networks=nets("10.1.0.0/16")) for each in (US, EU))
    assert between(one, other).ready == "True"


def test_the_cluster_itself_is_no_peer() -> None:
    assert found(replace(US, is_self=True), EU) == [(LOCAL_NAME, "eu", "endpointslices", "True", "Connected")]


def target(annotations: dict[str, str] | None = None, usable: str = "", **spec: Any) -> dict[str, Any]:
    condition = {"type": "ServicesShared", "status": "True", "reason": "EndpointSlices", "message": "m"}
    gateways = {"type": "GatewayUsable", "status": usable, "reason": "r", "message": "because"}
    metadata = {"name": "us", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [condition, *([gateways] if usable else ())]}}


def test_a_person_knows_better_where_pods_are() -> None:
    told = nets("10.1.0.0/16")
    assert peer(target(), told) == Peer("us", "True", "EndpointSlices", "m", told)
    assert peer(target(podCIDRs=["10.9.0.0/16"]), told).networks == nets("10.9.0.0/16")
    assert peer(target({"multicluster/network-driver": "endpointslices"}), told).networks == ()
    assert peer(target(self=True), told).is_self
    assert [peer(target(usable=each), told).no_gateway for each in ("True", "False", "")] == ["", "because", NO_GATEWAY]
    assert peer({"metadata": {"name": "us"}}, ()) == Peer("us")
