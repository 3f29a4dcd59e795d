from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api import names
from agent.api.names import links
from agent.model.podranges import (
    ANYWHERE,
    LeftOut,
    PodRanges,
    addresses,
    flaw,
    last_verdict,
    of,
    published,
    shown,
    strangers,
    unreached,
    why_unreached,
    without_outside,
)
from tests.examples import examples

Raw = dict[str, Any]


def ranges(*cidrs: Any) -> PodRanges:
    return of({"spec": {"podCIDRs": list(cidrs)}})


TWO = ranges("10.1.0.0/16", "fd00:1::/64")


def test_excluded_networks_are_left_out_and_all_else_stays() -> None:
    found = PodRanges(excluded=TWO.networks or ())
    addresses = ("10.1.0.7", "fd00:1::7", "10.2.0.7", "192.0.2.10", "db.example.com")
    assert [found.holds(each) for each in addresses] == [False, False, True, True, True]


@pytest.mark.parametrize("address", ["010.1.0.7", "0" * 60 + "10.1.0.7", "fd00:00001::7", "fd00:00001::a", "", None])
def test_excluded_networks_have_addresses_that_only_kubernetes_can_read(address: object) -> None:
    assert not PodRanges(excluded=TWO.networks or ()).holds(address)


def test_a_target_that_names_none_may_have_any_address() -> None:
    assert of({"spec": {}}) == of({}) == ANYWHERE
    status = {"podIP": "203.0.113.7", "podIPs": [{"ip": "203.0.113.7"}]}
    assert without_outside(status, ANYWHERE) == (status, None)


@pytest.mark.parametrize("address", ["10.1.0.1", "10.1.255.255", "fd00:1::5", "fd00:0001:0::5"])
def test_an_address_inside_is_held(address: str) -> None:
    assert TWO.holds(address)


@pytest.mark.parametrize(
    "address",
    [
        "10.2.0.1",
        "127.0.0.1",
        "::ffff:10.1.0.1",
        "fd00:1::5%eth0",
        "fd00:2::5",
        "010.1.0.1",
        "web.example",
        "",
        None,
        5,
    ],
)
def test_any_other_is_not(address: object) -> None:
    assert not TWO.holds(address)


def test_what_is_no_cidr_holds_nothing_and_the_others_still_count() -> None:
    assert ranges("10.1.0.0/16", "nonsense", 5).holds("10.1.0.1")
    assert not ranges("nonsense").holds("10.1.0.1")
    assert not ranges().holds("10.1.0.1")
    assert not of({"spec": {"podCIDRs": "10.1.0.0/16"}}).holds("10.1.0.1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10.1.0.0/16", ""),
        ("fd00:1::/64", ""),
        ("fd00:0001::/64", ""),
        ("10.1.2.0/16", "write 10.1.0.0/16"),
        ("10.1.0.0", "is no CIDR"),
        ("10.1.0.0/255.255.0.0", "is no CIDR"),
        ("10.1.0.0/33", "is no CIDR"),
        ("pods", "is no CIDR"),
    ],
)
def test_the_flaw_of_a_cidr_names_the_remedy(text: str, reason: str) -> None:
    assert reason in flaw(text)
    assert bool(flaw(text)) == bool(reason)


def status(*ips: str) -> Raw:
    return {"phase": "Running", "podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips], "hostIP": "192.0.2.1"}


OUTSIDE = LeftOut(
    "OutsidePodCIDRs",
    "10.9.0.5: outside spec.podCIDRs of the Target, and left out; add the range there if it is right",
)


def test_addresses_outside_are_left_out_and_the_first_of_the_others_is_the_pods() -> None:
    assert without_outside(status("10.1.0.5", "fd00:1::5"), TWO) == (status("10.1.0.5", "fd00:1::5"), None)
    assert without_outside(status("10.9.0.5", "fd00:1::5"), TWO) == (status("fd00:1::5"), OUTSIDE)
    none = {"phase": "Running", "hostIP": "192.0.2.1"}
    assert without_outside(status("10.9.0.5"), TWO) == (none, OUTSIDE)
    assert without_outside({**none, "podIP": "10.9.0.5"}, TWO) == (none, OUTSIDE)
    assert without_outside(none, TWO) == (none, None)
    assert without_outside({**status("10.1.0.5"), "podIP": "10.9.0.5"}, TWO) == (status("10.1.0.5"), OUTSIDE)


def test_of_many_addresses_some_are_shown() -> None:
    assert shown([str(each) for each in range(7)]) == "0, 1, 2, 3, 4 and 2 more"


def condition(status: str, reason: str, message: str = "") -> Raw:
    return {"conditions": [{"type": "ServicesShared", "status": status, "reason": reason, "message": message}]}


@pytest.mark.parametrize(
    ("state", "reason"), [*(("False", reason) for reason in links.NOT_FLAT), ("True", links.BY_GATEWAY)]
)
def test_no_address_comes_home_from_where_it_leads_to_strangers(state: str, reason: str) -> None:
    there = of({"spec": {}, "status": condition(state, reason)})
    found, left_out = without_outside(status("10.1.0.5", "fd00:1::5"), there)
    assert found == {"phase": "Running", "hostIP": "192.0.2.1"}
    assert left_out is not None
    assert left_out.reason == reason
    assert left_out.message.startswith("10.1.0.5, fd00:1::5: ")
    assert strangers(status("10.1.0.5", "fd00:1::5"), there) == "10.1.0.5, fd00:1::5"
    assert without_outside({"phase": "Pending"}, there) == ({"phase": "Pending"}, None)
    assert there.holds("10.1.0.5")


@pytest.mark.parametrize("why", links.NOT_FLAT)
@pytest.mark.parametrize(
    ("state", "driver"),
    [
        *(("True", each) for each in ("Skupper", "MCS", "Istio", "Linkerd", "Cilium", "External", "Off")),
        ("False", "Forbidden"),
        ("False", "InvalidNetworkDriver"),
    ],
)
def test_nor_does_it_whatever_the_driver_is_that_needs_none(why: str, state: str, driver: str) -> None:
    there = of({"spec": {}, "status": condition(state, driver, f"network driver x; {unreached(why)}")})
    assert there == PodRanges(None, why)
    assert strangers(status("10.1.0.5"), there) == "10.1.0.5"
    assert of({"status": condition(state, driver, "network driver x")}) == ANYWHERE


def test_what_keeps_pods_apart_is_known_from_the_condition_whoever_has_written_it() -> None:
    for state, reason, message, want in (
        ("True", "MCS", unreached(links.STRANGERS), links.STRANGERS),
        ("False", links.OVERLAP, "", links.OVERLAP),
        ("True", links.BY_GATEWAY, "", ""),
        # Earlier versions published it without the reason.
        ("True", links.BY_GATEWAY, "pods are not reached at their addresses", links.BY_GATEWAY),
        ("True", "EndpointSlices", "10.1.0.0/16 is in the pod networks of both clusters", ""),
    ):
        assert why_unreached({"status": state, "reason": reason, "message": message}) == want
    assert why_unreached({}) == ""


def test_without_a_verdict_no_address_is_published() -> None:
    fresh: Raw = {"metadata": {}, "spec": {"podCIDRs": ["10.1.0.0/16"]}}
    assert published(fresh) == PodRanges(ranges("10.1.0.0/16").networks, links.UNTOLD)
    found, left_out = without_outside(status("10.1.0.5"), published(fresh))
    assert "podIP" not in found
    assert left_out is not None
    assert "not known yet" in left_out.message
    assert published({**fresh, "status": condition("True", "EndpointSlices")}) == ranges("10.1.0.0/16")
    assert published({"spec": {"self": True}}) == ANYWHERE
    by_hand = {names.SHORT_PREFIX + names.NETWORK_DRIVER: names.ENDPOINT_SLICES_DRIVER}
    assert published({"metadata": {"annotations": by_hand}}) == ANYWHERE
    for state, reason, want in (
        ("True", "EndpointSlices", ""),
        ("True", links.BY_GATEWAY, ""),
        ("False", links.OVERLAP, links.OVERLAP),
        ("False", links.UNTOLD, None),
    ):
        assert last_verdict({"status": state, "reason": reason, "message": ""}) == want
    assert last_verdict(None) is None


def test_addresses_of_a_pod_are_known_wherever_they_are_told() -> None:
    pod = {"metadata": {}, "status": status("10.1.0.5", "fd00:1::5")}
    hidden = {"metadata": {"annotations": {links.ANNOTATION_POD_IPS: "10.1.0.5, fd00:1::5"}}, "status": {}}
    assert addresses(pod) == addresses(hidden) == {"10.1.0.5", "fd00:1::5"}
    assert addresses({"metadata": {}}) == set()


def test_both_have_their_say() -> None:
    there = of({"spec": {"podCIDRs": ["10.1.0.0/16"]}, "status": condition("False", links.OVERLAP)})
    assert strangers(status("10.1.0.5", "fd00:1::5"), there) == "10.1.0.5"
    assert without_outside(status("10.9.0.5"), there) == ({"phase": "Running", "hostIP": "192.0.2.1"}, OUTSIDE)


@pytest.mark.parametrize(
    ("state", "reason"), [("False", "Forbidden"), ("True", links.OVERLAP), ("True", "MCS"), ("False", "Gateway")]
)
def test_addresses_come_home_whatever_else_keeps_endpoints_from_being_shared(state: str, reason: str) -> None:
    assert of({"spec": {}, "status": condition(state, reason)}) == ANYWHERE


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(["10.1.0.1", "10.9.0.1", "ip"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["ip", "a"]), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=examples(500))
@given(JSON, JSON, JSON)
def test_no_address_outside_ever_comes_through(named: Any, ip: Any, ips: Any) -> None:
    of({"spec": {"podCIDRs": named}})
    assert isinstance(strangers({"podIP": ip, "podIPs": ips}, PodRanges(None, links.OVERLAP)), str)
    found, outside = without_outside({"podIP": ip, "podIPs": ips}, TWO)
    kept = found.get("podIPs")
    for each in kept if isinstance(kept, list) else ():
        if isinstance(each, dict) and isinstance(each.get("ip"), str):
            assert TWO.holds(each["ip"])
    if isinstance(found.get("podIP"), str) and found["podIP"]:
        assert TWO.holds(found["podIP"])
    assert outside is None or outside.reason == "OutsidePodCIDRs"


@settings(max_examples=examples(300))
@given(st.text(max_size=60))
def test_any_text_is_a_cidr_or_has_a_flaw(text: str) -> None:
    assert isinstance(flaw(text), str)
    assert isinstance(ranges(text).holds(text), bool)
