"""Claims of a target's cluster that pods and namespaces request by annotation."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from agent.model.claimfilter import ClaimFilter, combine, flaws, level

REGION, GPU = "p2code.filter.region", "p2code.filter.gpu"


@dataclass
class Told:
    claims: Mapping[str, str] | None


def asked(by_pod: dict[str, str], by_namespace: dict[str, str] | None = None) -> ClaimFilter:
    found = combine((level("the pod", by_pod), level("namespace shop", by_namespace)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("claims", "refusal"),
    [
        ({REGION: "south"}, ""),
        ({REGION: "south", "id.k8s.io": "x"}, ""),
        ({REGION: "north"}, f"its claim {REGION} is north, and is to be south for the pod"),
        ({REGION: "South"}, f"its claim {REGION} is South, and is to be south for the pod"),
        ({"region": "south"}, f"its cluster has no claim {REGION}, which is to be south for the pod"),
        ({}, f"its cluster has no claim {REGION}, which is to be south for the pod"),
        (None, "which claims its cluster has is not known"),
    ],
)
def test_a_target_will_do_whose_cluster_has_the_claim(claims: dict[str, str] | None, refusal: str) -> None:
    assert asked({REGION: "south", "other": "x"}).refusal(Told(claims)) == refusal


def test_what_pod_and_namespace_ask_for_counts_together() -> None:
    both = asked({REGION: "south"}, {GPU: "true"})
    assert both.refusal(Told({REGION: "south", GPU: "true"})) == ""
    assert (
        both.refusal(Told({REGION: "south"}))
        == f"its cluster has no claim {GPU}, which is to be true for namespace shop"
    )
    assert both.source == f"{REGION}=south of the pod; {GPU}=true of namespace shop"


def test_two_values_of_one_claim_no_cluster_has() -> None:
    both = asked({REGION: "south"}, {REGION: "north"})
    assert both.refusal(Told({REGION: "south"})).endswith("is to be north for namespace shop")
    assert both.refusal(Told({REGION: "north"})).endswith("is to be south for the pod")


@pytest.mark.parametrize(
    "annotations", [None, {}, {"multicluster/elect": ""}, {"p2code.filter/x": "1", "a/p2code.filter.x": "1"}]
)
def test_who_asks_for_nothing_goes_anywhere(annotations: dict[str, str] | None) -> None:
    assert combine((level("the pod", annotations),)) is None
    assert list(flaws(annotations)) == []


def test_the_same_is_one_object() -> None:
    assert asked({REGION: "south", GPU: "1"}) is asked({GPU: "1", REGION: "south"})


@pytest.mark.parametrize("claims", [None, {}, {"p2code.filterregion": "south"}])
def test_what_cannot_be_meant_lets_pods_go_nowhere_and_takes_nothing_away(claims: dict[str, str] | None) -> None:
    found = asked({"p2code.filterregion": "south"})
    assert found.refusal(Told(claims)) == (
        "the pod: metadata.annotations[p2code.filterregion] names no feature: write p2code.filter.FEATURE, as the claim"
        " of the clusters is called"
    )
    assert found.misplaced(Told(claims)) == ""


def test_a_pod_is_misplaced_only_by_claims_that_are_known() -> None:
    found = asked({REGION: "south"})
    assert found.misplaced(Told(None)) == ""
    assert found.misplaced(Told({REGION: "south"})) == ""
    assert found.misplaced(Told({})) == found.refusal(Told({})) != ""


def test_long_values_are_cut_in_messages() -> None:
    found = asked({REGION: "s" * 200})
    assert len(found.refusal(Told({REGION: "n" * 200}))) < 250
    assert len(found.source) < 150
