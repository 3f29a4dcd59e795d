"""Pod state read from chaperons, as a table, and the phases of a candidate in mode `reserve`."""

from dataclasses import replace
from typing import Any

import pytest

from agent.api import names
from agent.model.podstate import is_allowed, is_refused, may_start, observe, scheduling_of, taken_up_by
from tests.scheduler.reserve.candidates import EU, FULL, SCHEDULED, chaperon


@pytest.mark.parametrize(
    ("status", "scheduling", "by"),
    [
        ({}, ("pending", ""), ""),
        ({"conditions": None}, ("pending", ""), ""),
        ({"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}, ("pending", ""), ""),
        ({"phase": "Running"}, ("bound", ""), "scheduler"),
        ({"phase": "Failed", "conditions": [FULL]}, ("bound", ""), "scheduler"),
        ({"conditions": [SCHEDULED]}, ("bound", ""), "scheduler"),
        ({"conditions": [FULL]}, ("unschedulable", "full"), "scheduler"),
        ({"conditions": [FULL | {"message": ""}]}, ("unschedulable", "Unschedulable"), "scheduler"),
        ({"conditions": [FULL], "nominatedNodeName": "n1"}, ("pending", "full"), "scheduler"),
        ({"conditions": [FULL | {"reason": "SchedulingGated"}]}, ("gated", "full"), "scheduler"),
        ({"conditions": [FULL | {"reason": "SchedulerError"}]}, ("pending", "full"), "scheduler"),
        ({"conditions": [FULL | {"reason": "Refused"}]}, ("refused", "full"), "agent"),
    ],
)
def test_what_a_status_says_of_scheduling_and_who_has_said_it(status: Any, scheduling: Any, by: str) -> None:
    assert scheduling_of(status) == scheduling
    assert is_refused(status) is (scheduling[0] == "refused")
    assert taken_up_by({"metadata": {}, "status": status}) == by
    assert taken_up_by({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": status}) == "agent"


@pytest.mark.parametrize(
    ("scheduler", "annotations", "allowed", "may"),
    [
        (None, {}, False, True),
        ("default-scheduler", {}, False, True),
        (names.SCHEDULER_CANDIDATE, {}, False, False),
        (names.SCHEDULER_CANDIDATE, {names.ANNOTATION_IS_RESERVED: "true"}, False, False),
        (names.SCHEDULER_CANDIDATE, {names.ANNOTATION_IS_ALLOWED: "true"}, True, True),
    ],
)
def test_only_the_candidate_scheduler_waits_for_leave(
    scheduler: Any, annotations: Any, allowed: bool, may: bool
) -> None:
    assert is_allowed(annotations) is allowed
    assert may_start(scheduler, annotations) is may


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (chaperon(), ("pending", False)),
        (chaperon(FULL), ("unschedulable", False)),
        (chaperon(FULL | {"reason": "SchedulingGated"}), ("unschedulable", False)),
        (chaperon(FULL | {"reason": "SchedulerError"}), ("pending", False)),
        (chaperon(FULL | {"reason": "Refused"}), ("refused", False)),
        (chaperon(reserved=True), ("reserved", False)),
        (chaperon(FULL, reserved=True), ("reserved", False)),
        (chaperon(FULL, reserved=True, allowed=True), ("unschedulable", False)),
        (chaperon(reserved=True, allowed=True), ("reserved", False)),
        (chaperon(SCHEDULED, reserved=True), ("bound", False)),
        (chaperon(reserve_ended="0"), ("pending", True)),
        (chaperon(reserve_ended="1", reserve_round="2"), ("pending", False)),
        (chaperon(reserve_ended="2", reserve_round="nonsense"), ("pending", True)),
        (chaperon(reserve_ended="0", allowed=True), ("pending", False)),
    ],
    ids=[
        "nothing is told",
        "no node fits",
        "a gate is closed",
        "the scheduler failed",
        "the API server refuses the pod",
        "a node is reserved",
        "a node is reserved after none fitted",
        "leave is given and no node fits, whatever was reserved before",
        "leave is given",
        "it has a node",
        "its reservation has ended",
        "the next round is asked for",
        "a round that is no number counts as the first",
        "what is allowed needs no other round",
    ],
)
def test_a_chaperon_is_seen_as(found: Any, expected: tuple[str, bool]) -> None:
    seen = observe(found, EU, ready=True, now=5.0)
    assert (seen.state, seen.ended) == expected


def test_preemption_under_way_is_no_refusal() -> None:
    found = chaperon(FULL)
    found["status"]["nominatedNodeName"] = "n1"
    assert observe(found, EU, ready=True, now=0.0).state == "pending"


def test_a_state_lasts_since_it_was_seen_first() -> None:
    first = observe(chaperon(FULL), EU, ready=True, now=1.0)
    assert observe(chaperon(FULL), EU, ready=True, now=9.0, before=first).since == 1.0
    assert observe(chaperon(FULL, allowed=True), EU, ready=True, now=9.0, before=first).since == 9.0
    assert observe(chaperon(FULL), EU, ready=True, now=9.0, before=replace(first, uid="c0")).since == 9.0
