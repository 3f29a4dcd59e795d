"""Delegates that cannot be created, or have no scheduler: the conditions of their chaperon."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api import names
from agent.base.clock import stamp
from agent.model.podstate import taken_up_by
from agent.pods.chaperon.decide import ChaperonAndPod, LookAgain, NoScheduler, PutStatus, decide
from agent.pods.chaperon.delegate_memory import LASTING_SECONDS, LEAST_SECONDS, MOST_SECONDS, Failures
from agent.pods.chaperon.refusals import NO_SCHEDULER, refused, unscheduled
from agent.scheduler.chaperon_writer import creates_no_pods
from agent.scheduler.ranked.decide import delegate_outcome

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PENDING = {"phase": "Pending", "qosClass": "Burstable"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}
KEY = ("default", "web-1")


def chaperon(status: dict[str, Any] | None = None) -> dict[str, Any]:
    metadata = {"name": "web-1", "namespace": "default", "uid": "C", "annotations": {}}
    return {"metadata": metadata, "spec": {"containers": []}, "status": status or {}}


def candidate(status: dict[str, Any], *, age: float, **spec: Any) -> dict[str, Any]:
    """Return a delegate for the candidate scheduler."""
    metadata = {
        "name": "web-1",
        "namespace": "default",
        "ownerReferences": [{"kind": "PodChaperon", "uid": "C", "controller": True}],
        "creationTimestamp": stamp(NOW - timedelta(seconds=age)),
    }
    return {"metadata": metadata, "spec": {"schedulerName": names.SCHEDULER_CANDIDATE, **spec}, "status": status}


def actions(pod: dict[str, Any], told: dict[str, Any] | None = None, *, candidates: bool = False) -> list[Any]:
    return decide(ChaperonAndPod(chaperon(told), pod, 60.0, candidates=candidates), NOW)


def test_what_fails_for_a_moment_is_told_nobody_and_what_lasts_is() -> None:
    clock = [0.0]
    failures = Failures(lambda: clock[0])
    assert failures.pause(KEY) is None
    clock[0] = LASTING_SECONDS - 0.1
    assert failures.pause(KEY) is None
    clock[0] = LASTING_SECONDS
    assert failures.pause(KEY) == LEAST_SECONDS
    clock[0] = 40.0
    assert failures.pause(KEY) == 20.0
    clock[0] = 1e6
    assert failures.pause(KEY) == MOST_SECONDS
    failures.forget(KEY)
    assert failures.pause(KEY) is None


def test_a_refusal_for_what_may_pass_is_one_for_every_source_and_ours_know_that_it_concerns_all_pods() -> None:
    status = refused("dead webhook", passing=True)
    assert delegate_outcome(status) == ("refused", "dead webhook")
    assert creates_no_pods({"status": status})
    assert not creates_no_pods({"status": refused("quota")})
    assert not creates_no_pods({})


def test_a_refusal_is_withdrawn_once_there_is_a_pod() -> None:
    pod = candidate(PENDING, age=0, schedulerName="default-scheduler")
    assert actions(pod, refused("dead webhook", passing=True)) == [PutStatus({})]
    assert actions(pod) == []
    running = {"phase": "Running", "conditions": [SCHEDULED]}
    assert actions({**pod, "status": running}, refused("quota")) == [PutStatus(running)]


def test_a_candidate_is_told_as_unschedulable_where_no_scheduler_is_for_it() -> None:
    assert actions(candidate(PENDING, age=4)) == [LookAgain(6.0)]
    status = unscheduled(PENDING)
    assert actions(candidate(PENDING, age=10)) == [NoScheduler(NO_SCHEDULER, status)]
    assert actions(candidate(PENDING, age=11), status) == []
    assert delegate_outcome(status) == ("refused", NO_SCHEDULER)
    assert taken_up_by({"metadata": {}, "status": status}) == "scheduler"


@pytest.mark.parametrize(
    "pod",
    [
        candidate(PENDING, age=99, schedulerName="default-scheduler"),
        candidate(PENDING, age=99, nodeName="n1"),
        candidate(PENDING, age=99) | {"spec": {}},
    ],
    ids=["it is for another scheduler", "it has a node", "it names no scheduler"],
)
def test_nothing_is_told_of_a_delegate_where(pod: dict[str, Any]) -> None:
    assert actions(pod) == []


def test_nothing_is_told_where_a_candidate_scheduler_runs() -> None:
    assert actions(candidate(PENDING, age=99), candidates=True) == []


def test_once_a_scheduler_has_looked_at_a_candidate_its_own_words_are_told() -> None:
    full = {**PENDING, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    assert actions(candidate(full, age=99), unscheduled(PENDING)) == [PutStatus(full)]
