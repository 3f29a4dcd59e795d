from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.model.endpoints import ENDPOINTS_LIMIT, Shelf, count_ready, is_mirror, mirrors, outside, ready, silenced
from agent.model.podranges import of

Raw = dict[str, Any]

SHELF = Shelf("default", "web", "u9", (("multicluster/global", "true"),))


def endpoint(number: int, node: str = "n1", **more: Any) -> Raw:
    return {
        "addresses": [f"10.1.{number // 250}.{number % 250}"],
        "nodeName": node,
        "targetRef": {"kind": "Pod", "name": f"web-{number}"},
        "conditions": {"ready": True, "serving": True, "terminating": False},
        **more,
    }


def slice_of(*endpoints: Raw, **labels: str) -> Raw:
    return {
        "metadata": {"name": "web-abc12", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


def test_a_mirror_belongs_to_the_service_of_its_cluster_and_names_neither_node_nor_pod() -> None:
    zone = {
        "zone": "eu-1",
        "hints": {"forZones": [{"name": "eu-1"}], "forNodes": [{"name": "n1"}]},
        "hostname": "web-0",
    }
    (made,) = mirrors(slice_of(endpoint(1, **zone)), "eu", SHELF)
    assert made["metadata"]["labels"] == {
        "multicluster/global": "true",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.flotilla",
        "multicluster/origin": "eu",
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u9"
    assert made["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert made["endpoints"] == [
        {
            "addresses": ["10.1.0.1"],
            "hostname": "web-0",
            "zone": "eu-1",
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "hints": {"forZones": [{"name": "eu-1"}]},
        }
    ]
    assert is_mirror(made["metadata"]["labels"])


def test_pods_of_a_dual_stack_service_count_once() -> None:
    four = slice_of(endpoint(1), endpoint(2), endpoint(3, "away"), endpoint(4, conditions={"ready": False}))
    six = {**slice_of(*(endpoint(each, addresses=[f"2001:db8::{each}"]) for each in (1, 2))), "addressType": "IPv6"}
    assert count_ready([four, six], {"away"}) == 2
    assert count_ready([six], {"away"}) == 2
    assert count_ready([four, slice_of(endpoint(5)), six], {"away"}) == 3
    assert count_ready([], ()) == 0


def test_conditions_are_those_of_the_endpoint() -> None:
    leaving = {"ready": False, "serving": True, "terminating": True}
    (made,) = mirrors(slice_of(endpoint(1, conditions=leaving), endpoint(2, conditions={})), "eu", SHELF)
    assert made["endpoints"][0]["conditions"] == leaving
    assert "conditions" not in made["endpoints"][1]


def test_endpoints_on_virtual_nodes_are_told_by_the_clusters_that_they_are_in() -> None:
    mixed = slice_of(endpoint(1, "admiralty-default-us"), endpoint(2))
    (made,) = mirrors(mixed, "cd", SHELF, {"admiralty-default-us"})
    assert [each["addresses"] for each in made["endpoints"]] == [["10.1.0.2"]]
    assert mirrors(slice_of(endpoint(1, "admiralty-default-us")), "cd", SHELF, {"admiralty-default-us"}) == []


def test_slices_of_a_headless_service_say_so() -> None:
    (made,) = mirrors(slice_of(endpoint(1), **{"service.kubernetes.io/headless": ""}), "eu", SHELF)
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


@given(st.integers(0, 350))
def test_no_mirror_has_more_than_a_hundred_endpoints_and_none_is_lost(count: int) -> None:
    made = mirrors(slice_of(*map(endpoint, range(count))), "eu", SHELF)
    assert all(0 < len(each["endpoints"]) <= ENDPOINTS_LIMIT for each in made)
    found = [address for each in made for one in each["endpoints"] for address in one["addresses"]]
    assert found == [endpoint(number)["addresses"][0] for number in range(count)]
    assert len({each["metadata"]["name"] for each in made}) == len(made)


def test_slices_of_two_clusters_have_mirrors_of_different_names() -> None:
    (us,), (eu,) = (mirrors(slice_of(endpoint(1)), origin, SHELF) for origin in ("us", "eu"))
    assert us["metadata"]["name"] != eu["metadata"]["name"]


def test_nothing_is_ready_in_a_cluster_that_has_gone_silent() -> None:
    (made,) = mirrors(slice_of(endpoint(1), endpoint(2, conditions={})), "eu", SHELF)
    assert ready(silenced(made)) == {}
    assert [each["addresses"] for each in silenced(made)["endpoints"]] == [["10.1.0.1"], ["10.1.0.2"]]


def test_an_endpoint_whose_readiness_is_not_told_counts_as_ready() -> None:
    slice = slice_of(endpoint(1, conditions={}), endpoint(2, conditions={"ready": False}), endpoint(3, "n2"))
    assert ready(slice) == {"n1": ["10.1.0.1"], "n2": ["10.1.0.3"]}


def test_addresses_outside_the_ranges_of_their_cluster_are_left_out() -> None:
    ranges = of({"spec": {"podCIDRs": ["10.1.0.0/24"]}})
    inside, both = endpoint(1), {**endpoint(2), "addresses": ["10.1.0.2", "203.0.113.7"]}
    found = slice_of(inside, both, {**endpoint(3), "addresses": ["169.254.169.254"]})
    (made,) = mirrors(found, "eu", SHELF, ranges=ranges)
    assert [each["addresses"] for each in made["endpoints"]] == [["10.1.0.1"], ["10.1.0.2"]]
    assert outside(found, ranges) == ["203.0.113.7", "169.254.169.254"]
    assert mirrors(slice_of({**inside, "addresses": ["web.example"]}), "eu", SHELF, ranges=ranges) == []
    assert len(mirrors(found, "eu", SHELF)[0]["endpoints"]) == 3
