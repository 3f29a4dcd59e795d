"""Usage scores of clusters."""

import json

from agent.api.names import ANNOTATION_NODE_SHAPES
from agent.api.names.ocm import USED
from agent.model.quantity import Quantity
from agent.placement.usage_scores.decide import NOT_TOLD, Told, decide

MAXIMA = {
    name: Quantity.of(amount).nano for name, amount in (("cpu", 100), ("memory", "1Ti"), ("gpu", 20), ("tpu", 20))
}
LOST = Told("lost", "no route to host")


def ready(cpu: str, used: str = "") -> Told:
    shape = {"allocatable": {"cpu": "100"}, "count": 1, "free": [{"amounts": {"cpu": cpu}, "count": 1}]}
    measured = {USED: json.dumps({"cpu": used})} if used else {}
    return Told("ready", summary={ANNOTATION_NODE_SHAPES: json.dumps([shape]), **measured})


def test_the_scores_are_those_of_the_first_target_that_is_ready() -> None:
    for targets in ([ready("60")], [LOST, ready("60"), ready("1")], [Told("unknown"), ready("60")]):
        found = decide(targets, MAXIMA, 900)
        assert found is not None
        assert (found.scores["cpuNodeAvailable"], found.status, found.validity) == (20, "True", 900)
        assert "cpuClusterIdle" not in found.scores
    measured = decide([ready("60", used="25")], MAXIMA, 900)
    assert measured is not None
    assert measured.scores["cpuClusterIdle"] == 50


def test_a_lost_cluster_has_none_and_says_why() -> None:
    found = decide([LOST, LOST], MAXIMA, 900)
    assert found is not None
    assert (found.scores, found.status, found.reason, found.message) == ({}, "False", "TargetLost", "no route to host")


def test_one_that_is_being_connected_keeps_what_it_has() -> None:
    assert decide([Told("unknown")], MAXIMA, 900) is None
    assert decide([LOST, Told("unknown")], MAXIMA, 900) is None


def test_one_that_nobody_leads_to_any_more_is_lost() -> None:
    found = decide([], MAXIMA, 900)
    assert found is not None
    assert (found.scores, found.reason, found.message) == ({}, "TargetLost", "no Target leads to it any more")


def test_one_that_tells_nothing_of_what_is_free_has_none_and_what_to_do_is_said() -> None:
    found = decide([Told("ready")], MAXIMA, 900)
    assert found is NOT_TOLD
    assert "agent.summaryDetail: full" in found.message
