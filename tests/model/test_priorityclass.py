"""Refusals because of a missing PriorityClass: their detection, and the pod created in response."""

from typing import Any

import pytest

from agent.model import priorityclass

MISSING = 'pods "web-0123" is forbidden: no PriorityClass with name urgent was found'
REQUIRE = {"multicluster/priority-class": "require"}


def chaperon(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web-0123", "annotations": annotations}, "spec": {"containers": [], **spec}}


def test_the_class_is_known_by_the_words_of_the_refusal() -> None:
    assert priorityclass.lacking(chaperon(priorityClassName="urgent"), MISSING) == "urgent"


@pytest.mark.parametrize(
    ("of", "refusal"),
    [
        (chaperon(priorityClassName="other"), MISSING),
        (chaperon(), MISSING),
        (chaperon(REQUIRE, priorityClassName="urgent"), MISSING),
        (chaperon({"multicluster.admiralty.io/priority-class": "require"}, priorityClassName="urgent"), MISSING),
        (chaperon(priorityClassName="urgent"), 'pods "web-0123" is forbidden: exceeded quota: urgent'),
        (chaperon(priorityClassName="urgent"), MISSING + " by a webhook of ours"),
    ],
    ids=["another class", "no class", "required", "required by the long key", "another refusal", "another's words"],
)
def test_nothing_is_left_out_for(of: dict[str, Any], refusal: str) -> None:
    assert priorityclass.lacking(of, refusal) == ""


def test_what_follows_from_the_class_goes_with_it_and_nothing_else() -> None:
    pod = chaperon(priorityClassName="urgent", priority=7, preemptionPolicy="Never", nodeSelector={"a": "b"})
    assert priorityclass.without(pod) == chaperon(nodeSelector={"a": "b"})
    assert pod["spec"]["priority"] == 7


@pytest.mark.parametrize(("annotations", "want"), [(REQUIRE, REQUIRE), ({}, {}), ({priorityclass.KEY: "optional"}, {})])
def test_only_a_pod_that_waits_says_so_to_its_target(annotations: dict[str, str], want: dict[str, str]) -> None:
    assert priorityclass.demand(annotations) == want
