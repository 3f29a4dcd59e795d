"""Conditions of a proxy pod that its delegate decides, and conditions that the source decides."""

from typing import Any

import pytest

from agent.api import names
from agent.api.names.following import ANNOTATION_OBSERVED, ANNOTATION_TARGET_CONDITIONS
from agent.model import followed
from agent.model.podconditions import MOST_GATES, Followed, gate_patch, gates, list_of_target, merged

Raw = dict[str, Any]

T = "example.com/T"


def pod(*conditions: Raw, listed: str = "", **spec: Any) -> Raw:
    annotations = {ANNOTATION_TARGET_CONDITIONS: listed} if listed else {}
    return {"metadata": {"annotations": annotations}, "spec": spec, "status": {"conditions": list(conditions)}}


def of(type: str, status: str = "True", **more: Any) -> Raw:
    return {"type": type, "status": status, **more}


@pytest.mark.parametrize(
    ("mine", "theirs", "listed", "gate", "wanted", "noted"),
    [
        (of(T), None, False, False, of(T), ""),  # a controller in the source wrote it
        (None, of(T), False, False, of(T), T),  # a controller in the target did
        (of(T), of(T, "False"), False, False, of(T), ""),  # the source did first
        (of(T), of(T, "False"), True, False, of(T, "False"), T),  # the target did first
        (of(T), of(T), False, False, of(T), T),  # copied by an agent that kept no list
        (of(T), None, True, False, None, ""),  # the target has removed it
        (of(T), of(T, "False"), True, True, of(T), ""),  # the delegate has it from the source
        (None, of(T), False, True, None, ""),  # the source has removed it
    ],
)
def test_a_condition_belongs_to_the_cluster_that_wrote_it_first(
    mine: Raw | None, theirs: Raw | None, listed: bool, gate: bool, wanted: Raw | None, noted: str
) -> None:
    proxy = pod(*([mine] if mine else []), listed=T if listed else "")
    followed = Followed({T} if gate else ())
    delegate = [theirs] if theirs else []
    assert merged(proxy, delegate, followed) == ([wanted] if wanted else [])
    assert list_of_target(proxy, delegate, followed) == noted


def test_gates_of_the_source_are_sent_and_those_of_target_and_kubelet_are_not() -> None:
    wanted = [{"conditionType": type} for type in ("a.io/mine", "a.io/theirs", "a.io/copied", "Ready", "a.io/none")]
    proxy = pod(
        *(of("a.io/mine", "False"), of("a.io/theirs"), of("a.io/copied"), of("Ready"), of("a.io/other")),
        listed="a.io/theirs",
        readinessGates=wanted,
    )
    chaperon = {"status": {"conditions": [of("a.io/copied")]}}
    assert gates(proxy, chaperon, {}) == {"a.io/mine": "False"}
    assert gates(proxy, chaperon, {"a.io/none": "True"}) == {"a.io/mine": "False", "a.io/none": None}
    many = [{"conditionType": f"a.io/{number}"} for number in range(200)]
    conditions = [of(each["conditionType"]) for each in many]
    assert len(gates(pod(*conditions, readinessGates=many), chaperon, {})) == MOST_GATES


def test_a_target_sets_readiness_gates_of_the_delegate_alone_and_only_where_they_differ() -> None:
    delegate = pod(of("a.io/old"), of("a.io/same"), readinessGates=[{"conditionType": f"a.io/{n}"} for n in OWN])
    sent = {"a.io/new": "True", "a.io/old": None, "a.io/same": "True", "a.io/none": None, "a.io/x": "True"}
    new, old = gate_patch({**sent, "Ready": "True"}, delegate, "now")["status"]["conditions"]
    assert (new["type"], new["status"], new["lastTransitionTime"]) == ("a.io/new", "True", "now")
    assert old == {"type": "a.io/old", "$patch": "delete"}
    assert gate_patch({"a.io/same": "True"}, delegate, "now") == {}


OWN = ("new", "old", "same", "none")


def test_conditions_that_are_current_get_the_generation_that_the_delegate_has_followed() -> None:
    proxy = pod(of("Ready", "False", observedGeneration=2), of("PodScheduled", observedGeneration=1))
    delegate = [of("Ready", observedGeneration=9), of("PodScheduled", observedGeneration=4), of("Initialized")]
    assert merged(proxy, delegate, Followed((), 3), 9) == [
        of("Ready", observedGeneration=3),
        of("PodScheduled", observedGeneration=1),
        of("Initialized"),
    ]


@pytest.mark.parametrize(
    ("changes", "noted", "generation"),
    [
        ("", "", 1),
        ('{"generation":3}', "", 1),
        ('{"generation":3}', "3", 3),
        ('{"generation":3,"born":2}', "", 2),
        ('{"generation":3}', "7", 3),  # the source has no such generation
        ('{"generation":3}', "three", 1),
        ('{"generation":3}', "9" * 5000, 1),
    ],
)
def test_the_generation_that_a_delegate_has_followed(changes: str, noted: str, generation: int) -> None:
    annotations = {names.ANNOTATION_LIVE_CHANGES: changes, ANNOTATION_OBSERVED: noted}
    chaperon = {"metadata": {"annotations": {key: value for key, value in annotations.items() if value}}}
    assert followed.followed(chaperon).generation == generation


def test_a_generation_is_observed_once_the_kubelet_has_seen_the_newest_spec() -> None:
    delegate = {"metadata": {"generation": 5}, "status": {"observedGeneration": 4}}
    assert followed.observed({"generation": 2}, delegate) == ""
    delegate["status"]["observedGeneration"] = 5
    assert followed.observed({"generation": 2}, delegate) == "2"
    assert followed.observed({}, delegate) == ""
