import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.base.clock import stamp
from agent.model.podstate import taken_up_by
from agent.ranking.rank import Ranking
from agent.ranking.snapshot import Free, Shape, TargetInfo
from agent.scheduler.failed_targets import FailedTarget
from agent.scheduler.ranked.decide import (
    GATED,
    Bind,
    Claim,
    GiveUp,
    RankedPod,
    Step,
    Stop,
    Wait,
    decide,
    delegate_outcome,
    fast_path,
)
from tests.ranking.pods_and_targets import target_info

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DWELL = timedelta(seconds=30)
EU, US = target_info("eu"), target_info("us")
NONE = Ranking((), 0, ())
BOTH = Ranking((EU, US), 2, ())
REFUSAL = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]}


def chaperon(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web-1", **metadata}, "status": status or {}}


def refused(*nodes: str, ago: float = 0, count: int = 1) -> dict[str, FailedTarget]:
    """Return failed targets by virtual node, refused this many seconds ago."""
    return {node: FailedTarget("full", stamp(NOW - timedelta(seconds=ago)), count) for node in nodes}


def view(**changes: Any) -> RankedPod:
    """Return a pod claimed by eu, which is ready and has its chaperon."""
    usual: dict[str, Any] = {
        "claim": EU.node_name,
        "claim_known": True,
        "claim_ready": True,
        "claim_held": True,
        "claim_unsent": False,
        "claim_state": "",
        "chaperon": chaperon(),
        "failed": {},
        "ranking": BOTH,
        "now": NOW,
        "dwell": DWELL,
    }
    return RankedPod(**usual | changes)


UNCLAIMED: dict[str, Any] = {"claim": "", "claim_known": False, "claim_ready": False, "chaperon": None}
AWAY: dict[str, Any] = {"claim_ready": False, "claim_state": "no answer", "ranking": Ranking((US,), 1, ())}


def test_an_unclaimed_pod_is_claimed_for_the_best_target() -> None:
    assert decide(view(**UNCLAIMED)) == Claim(EU.node_name)


def test_an_unclaimed_pod_waits_when_no_target_will_do() -> None:
    assert decide(view(**UNCLAIMED, ranking=NONE)) == Wait()


CLOSED = "not enabled"


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param(UNCLAIMED, Stop(CLOSED), id="a pod without a claim gets none"),
        pytest.param({**UNCLAIMED, "ranking": NONE}, Stop(CLOSED), id="nor where there is no target at all"),
        pytest.param({"chaperon": None}, Stop(CLOSED), id="a claim that anybody may have written sends nothing"),
        pytest.param({"chaperon": None, "ranking": NONE}, Stop(CLOSED), id="wherever it points"),
        pytest.param({"chaperon": chaperon()}, Wait(), id="a chaperon is waited for"),
        pytest.param({"chaperon": chaperon({"phase": "Running"})}, Bind(), id="and its pod is bound"),
        pytest.param({"chaperon": chaperon(REFUSAL)}, Wait("full"), id="it stays where it was refused"),
    ],
)
def test_where_the_namespace_is_not_enabled(changes: dict[str, Any], want: Step) -> None:
    assert decide(view(**changes, closed=CLOSED)) == want


def test_a_claim_by_a_target_that_does_not_answer_is_told_of_rather_than_the_namespace() -> None:
    step = decide(view(chaperon=None, closed=CLOSED, **AWAY))
    assert isinstance(step, Wait)
    assert "no answer" in step.message


def test_a_claim_without_chaperon_is_followed_by_the_chaperon() -> None:
    assert decide(view(chaperon=None)) == Claim(EU.node_name)


def test_a_claim_whose_target_does_not_answer_pins_the_pod_there() -> None:
    step = decide(view(chaperon=None, **AWAY))
    assert isinstance(step, Wait)
    assert "no answer" in step.message


def test_a_claim_from_which_nothing_was_sent_pins_nothing() -> None:
    assert decide(view(chaperon=None, claim_unsent=True, **AWAY)) == Claim(US.node_name)


def test_a_chaperon_in_a_target_that_does_not_answer_pins_the_pod_whatever_else_is_known() -> None:
    for told in ({}, REFUSAL, {"phase": "Running"}):
        assert isinstance(decide(view(chaperon=chaperon(told), **AWAY)), Wait)


def test_a_claim_by_a_target_that_is_not_connected_waits_while_its_finalizer_is_held() -> None:
    step = decide(view(claim_known=False, claim_ready=False, chaperon=None))
    assert isinstance(step, Wait)
    assert "not connected" in step.message


def test_a_claim_by_a_target_that_was_removed_and_has_let_go_is_void() -> None:
    assert decide(view(claim_known=False, claim_ready=False, claim_held=False, chaperon=None)) == Claim(EU.node_name)


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "PodScheduled", "status": "True"}]},
        {"phase": "Running"},
        {"phase": "Succeeded"},
        {"phase": "Failed"},
    ],
    ids=["has a node", "runs", "has succeeded", "has failed"],
)
def test_a_pod_is_bound_when_its_delegate(status: dict[str, Any]) -> None:
    assert decide(view(chaperon=chaperon(status))) == Bind()


def test_a_delegate_that_the_target_has_not_looked_at_is_waited_for() -> None:
    assert decide(view()) == Wait()


def test_a_refused_pod_goes_to_a_target_that_it_has_not_tried() -> None:
    assert decide(view(chaperon=chaperon(REFUSAL))) == GiveUp("full")


def test_a_pod_that_every_target_refused_stays_where_it_is_so_that_one_autoscaler_reacts() -> None:
    tried = {"ranking": Ranking((EU, US), 0, ()), "failed": refused(EU.node_name, US.node_name)}
    assert decide(view(chaperon=chaperon(REFUSAL), **tried)) == Wait("full")


def test_a_refused_pod_that_only_its_own_target_fits_stays() -> None:
    assert decide(view(chaperon=chaperon(REFUSAL), ranking=Ranking((EU,), 1, ()))) == Wait("full")


def test_a_chaperon_that_is_being_deleted_is_waited_for() -> None:
    going = chaperon({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert decide(view(chaperon=going)) == Wait()


def test_after_a_refusal_the_next_target_is_claimed() -> None:
    after = Ranking((US, EU), 1, ())
    assert decide(view(chaperon=None, failed=refused(EU.node_name), ranking=after)) == Claim(US.node_name)


def test_a_pod_that_all_refused_is_sent_again_to_the_best() -> None:
    failed = refused(EU.node_name, US.node_name)
    assert decide(view(chaperon=None, failed=failed, ranking=Ranking((EU, US), 0, ()))) == Claim(EU.node_name)


def test_a_claim_whose_target_no_longer_fits_moves_on_when_the_target_says_it_has_nothing() -> None:
    assert decide(view(chaperon=None, ranking=Ranking((US,), 1, ()))) == Claim(US.node_name)


OPENED = ": see the controller there that opens its gates, such as a queue"


def condition(**fields: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", **fields}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ("wait", "")),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, ("wait", "")),
        (condition(reason="Unschedulable", message="0/3"), ("refused", "0/3")),
        (condition(reason="Unschedulable"), ("refused", "Unschedulable")),
        (condition(reason="Unschedulable") | {"nominatedNodeName": "n1"}, ("wait", "")),
        (condition(reason="Refused", message="quota"), ("refused", "quota")),
        (condition(reason="SchedulingGated", message="queue"), ("gated", f"{GATED} (queue){OPENED}")),
        (condition(reason="SchedulerError"), ("wait", "")),
    ],
    ids=[
        "nothing is told",
        "something else is told",
        "no node fits",
        "no node fits, without words",
        "preemption is under way",
        "the API server refuses the pod",
        "a gate is closed",
        "the scheduler failed",
    ],
)
def test_a_status_is_judged(status: dict[str, Any], expected: tuple[str, str]) -> None:
    assert delegate_outcome(status) == expected


@given(st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, {}, REFUSAL, {"phase": "Running"}]))
def test_no_other_target_is_claimed_while_a_chaperon_is_there_or_may_be(
    known: bool, ready: bool, held: bool, status: dict[str, Any] | None
) -> None:
    ready = ready and known
    found = chaperon(status) if status is not None and known else None
    ranking = Ranking((US,), 1, ())
    step = decide(view(claim_known=known, claim_ready=ready, claim_held=held, chaperon=found, ranking=ranking))
    if isinstance(step, Claim):
        assert found is None
        assert ready or (not known and not held)


def test_where_nothing_fits_one_candidate_waits_where_only_room_is_missing() -> None:
    full = Ranking((), 0, (), (US, EU))
    assert decide(view(**UNCLAIMED, ranking=full)) == Claim(US.node_name)
    assert decide(view(chaperon=None, ranking=full)) == Claim(EU.node_name)
    assert decide(view(chaperon=chaperon(REFUSAL), ranking=full)) == Wait("full")
    assert decide(view(chaperon=chaperon(REFUSAL), ranking=Ranking((US,), 1, ()))) == GiveUp("full")


def roomy(name: str) -> TargetInfo:
    """Return a target that publishes its free capacity."""
    shape = Shape({}, (), False, {"cpu": 1}, free=(Free({"cpu": 1}),))
    return dataclasses.replace(target_info(name), shapes=(shape,))


def test_the_last_that_refused_is_left_for_the_best() -> None:
    """The pod moves once, to the best target, and waits there."""
    ranking = Ranking((US, EU), 0, ())
    last = view(chaperon=chaperon(REFUSAL), failed=refused(US.node_name), ranking=ranking)
    assert decide(last) == GiveUp("full")
    moved = view(chaperon=None, failed=refused(US.node_name, EU.node_name), ranking=ranking)
    assert decide(moved) == Claim(US.node_name)
    there = {"claim": US.node_name, "failed": refused(US.node_name, EU.node_name), "ranking": ranking}
    assert decide(view(chaperon=chaperon(REFUSAL), **there)) == Wait("full")


def test_a_waiting_pod_moves_to_a_target_that_tells_of_room_after_its_dwell() -> None:
    ranking = Ranking((roomy("us"), EU), 0, ())
    both = (EU.node_name, US.node_name)
    early = decide(view(chaperon=chaperon(REFUSAL), failed=refused(*both, ago=20), ranking=ranking))
    assert early == Wait("full", 10.0)
    assert decide(view(chaperon=chaperon(REFUSAL), failed=refused(*both, ago=30), ranking=ranking)) == GiveUp("full")


def test_a_target_that_refused_twice_is_left_alone_for_twice_as_long() -> None:
    ranking = Ranking((roomy("us"), EU), 0, ())
    both = (EU.node_name, US.node_name)
    failed = refused(*both, ago=45, count=2)
    assert decide(view(chaperon=chaperon(REFUSAL), failed=failed, ranking=ranking)) == Wait("full", 15.0)


def test_after_it_has_left_the_pod_goes_to_the_one_with_room_and_not_back() -> None:
    ranking = Ranking((EU, roomy("us")), 0, ())
    failed = refused(US.node_name, ago=30) | refused(EU.node_name)
    assert decide(view(chaperon=None, failed=failed, ranking=ranking)) == Claim(US.node_name)


def test_a_target_that_tells_nothing_of_room_is_not_tried_again() -> None:
    ranking = Ranking((US, EU), 0, ())
    failed = refused(EU.node_name, US.node_name, ago=9999)
    assert decide(view(chaperon=chaperon(REFUSAL), failed=failed, ranking=ranking)) == Wait("full")


# Targets that accept no chaperons


def untaken(*nodes: str, ago: float = 0, count: int = 1) -> dict[str, FailedTarget]:
    """Return targets that accepted no chaperon this many seconds ago."""
    return {
        node: FailedTarget("dead webhook", stamp(NOW - timedelta(seconds=ago)), count, refused=True) for node in nodes
    }


def test_a_pod_that_no_target_takes_waits_for_the_first_that_may_be_asked_again() -> None:
    failed = untaken(EU.node_name, ago=1, count=3) | untaken(US.node_name, count=2)
    nowhere = {"chaperon": None, "ranking": Ranking((EU, US), 0, ())}
    assert decide(view(failed=failed, **nowhere)) == Wait("", 2.0)
    assert decide(view(failed=failed, **nowhere, now=NOW + timedelta(seconds=2))) == Claim(US.node_name)
    assert decide(view(failed=failed, **nowhere, now=NOW + timedelta(seconds=3))) == Claim(EU.node_name)


def test_the_only_target_is_asked_again_after_pauses_that_grow() -> None:
    ranking = Ranking((EU,), 0, ())
    for count, pause in ((1, 1.0), (4, 8.0), (20, 30.0)):
        found = {"chaperon": None, "ranking": ranking, "failed": untaken(EU.node_name, count=count)}
        assert decide(view(**found)) == Wait("", pause)
        assert decide(view(**found, now=NOW + timedelta(seconds=pause))) == Claim(EU.node_name)


def test_a_target_that_only_lacks_room_goes_before_one_that_takes_nothing() -> None:
    failed = untaken(EU.node_name) | refused(US.node_name)
    assert decide(view(chaperon=None, failed=failed, ranking=Ranking((EU, US), 0, ()))) == Claim(US.node_name)
    full = Ranking((), 0, (), (EU, US))
    assert decide(view(chaperon=None, failed=untaken(EU.node_name), ranking=full)) == Claim(US.node_name)


def test_one_that_only_lacks_room_and_takes_nothing_is_waited_for() -> None:
    full = Ranking((), 0, (), (EU,))
    assert decide(view(chaperon=None, failed=untaken(EU.node_name, count=2), ranking=full)) == Wait("", 2.0)


def test_a_moment_that_a_clock_has_set_far_away_is_not_waited_for() -> None:
    failed = untaken(EU.node_name, ago=-3600)
    assert decide(view(chaperon=None, failed=failed, ranking=Ranking((EU,), 0, ()))) == Claim(EU.node_name)


def test_a_pod_that_waits_for_room_tries_again_where_it_was_not_taken_whatever_is_told_of_room() -> None:
    waits = {"claim": EU.node_name, "chaperon": chaperon(REFUSAL), "ranking": Ranking((EU, US), 1, ())}
    early = untaken(US.node_name, ago=10, count=9)
    assert decide(view(**waits, failed=early)) == Wait("full", 20.0)
    assert decide(view(**waits, failed=untaken(US.node_name, ago=30, count=9))) == GiveUp("full")


# Chaperons that neither agent nor scheduler handles

NEGLECTED = "nobody does anything"


def test_a_neglected_chaperon_is_given_up_for_a_target_that_can_take_the_pod() -> None:
    assert decide(view(neglected=NEGLECTED)) == GiveUp(NEGLECTED)
    tried = {"ranking": Ranking((EU, roomy("us")), 1, ())}
    assert decide(view(neglected=NEGLECTED, **tried, failed=refused(US.node_name, ago=30))) == GiveUp(NEGLECTED)


def test_it_stays_where_no_other_can_take_the_pod_and_says_why() -> None:
    assert decide(view(neglected=NEGLECTED, ranking=Ranking((EU,), 1, ()))) == Wait(NEGLECTED)
    tried = {"ranking": Ranking((EU, roomy("us")), 1, ())}
    early = decide(view(neglected=NEGLECTED, **tried, failed=refused(US.node_name, ago=20)))
    assert early == Wait(NEGLECTED, 10.0)
    assert decide(view(neglected=NEGLECTED, closed=CLOSED)) == Wait(NEGLECTED)


@pytest.mark.parametrize(
    "status",
    [
        condition(reason="Unschedulable") | {"nominatedNodeName": "n1"},
        {"phase": "Running"},
    ],
    ids=["preemption is under way", "it runs"],
)
def test_a_chaperon_is_not_neglected_where(status: dict[str, Any]) -> None:
    assert taken_up_by(chaperon(status)) == "scheduler"
    assert not isinstance(decide(view(neglected=NEGLECTED, chaperon=chaperon(status))), GiveUp)


def test_a_delegate_that_is_gated_leaves_for_a_target_that_was_not_tried_once_nobody_opens_it() -> None:
    gated = {"chaperon": chaperon(condition(reason="SchedulingGated", message="queue"))}
    why = f"{GATED} (queue){OPENED}"
    assert fast_path(gated["chaperon"]) is None
    assert decide(view(**gated)) == Wait(why)
    assert decide(view(**gated, neglected=NEGLECTED)) == GiveUp(why)
    tried = {"ranking": Ranking((EU, roomy("us")), 1, ()), "failed": refused(US.node_name, ago=3600)}
    assert decide(view(**gated, neglected=NEGLECTED, **tried)) == Wait(why)


def test_who_takes_a_chaperon_up() -> None:
    assert taken_up_by(chaperon({"phase": "Pending"})) == ""
    assert taken_up_by(chaperon(condition(reason="Refused"))) == "agent"
    assert taken_up_by(chaperon(REFUSAL)) == "scheduler"
    assert taken_up_by(chaperon(deletionTimestamp="2026-01-01T00:00:00Z")) == "agent"


def test_a_neglected_chaperon_in_a_target_that_does_not_answer_stays() -> None:
    assert isinstance(decide(view(neglected=NEGLECTED, **AWAY)), Wait)


MISPLACED = "no longer in Placement web"


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, GiveUp(MISPLACED), id="one that nobody has scheduled yet goes elsewhere"),
        pytest.param({"ranking": NONE}, GiveUp(MISPLACED), id="also where there is nowhere else"),
        pytest.param({"chaperon": chaperon(REFUSAL)}, GiveUp(MISPLACED), id="one that was refused does, too"),
        pytest.param({"chaperon": chaperon({"phase": "Running"})}, Bind(), id="one that runs is bound, and stays"),
        pytest.param({"chaperon": chaperon(deletionTimestamp="now")}, Wait(), id="one that goes already is let go"),
        pytest.param(
            {"chaperon": None, "ranking": Ranking((US,), 1, ())}, Claim(US.node_name), id="none is made there"
        ),
        pytest.param(
            {"closed": CLOSED}, Wait(MISPLACED), id="in a namespace that is not enabled it would not come back"
        ),
    ],
)
def test_a_chaperon_in_a_target_that_is_no_longer_decided(changes: dict[str, Any], want: Step) -> None:
    assert decide(view(**changes, misplaced=MISPLACED)) == want


def test_a_target_that_is_no_longer_decided_and_does_not_answer_keeps_the_pod() -> None:
    assert isinstance(decide(view(misplaced=MISPLACED, **AWAY)), Wait)
