from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scheduler.reserve.decide import decide, reasons
from agent.scheduler.reserve.steps import Allow, Bind, Claim, Create, Delete, GiveUp, NextRound, Unclaim, Wait
from agent.scheduler.reserve.view import Permit, Timeouts
from tests.scheduler.reserve.candidates import AP, EU, FULL, SCHEDULED, US, candidate, view

CLOSED = Permit(reserve=False, claim=False, allow=False, message="the group waits")
GATHER = Permit(claim=False, allow=False, message="the group gathers")


def claimed(*others: Any, here: Any = None, **changes: Any) -> Any:
    """Return a pod claimed for eu's candidate, which is reserved by default."""
    return view(here or candidate(EU, reserved=True), *others, **{"claim": EU} | changes)


# Without a claim


def test_candidates_are_made_everywhere_at_once() -> None:
    assert decide(view(), 0.0) == [Create(EU), Create(US), Create(AP), Wait("", 30.0)]


def test_a_target_gets_one_candidate_only() -> None:
    assert decide(view(candidate(EU), creating=frozenset((US,)), refused=frozenset((AP,))), 0.0) == [Wait("", 30.0)]


def test_a_target_that_no_longer_fits_loses_its_candidate() -> None:
    steps = decide(view(candidate(EU), candidate(US), order=(US,)), 0.0)
    assert steps == [Delete(EU, "c-eu", "7"), Wait("", 30.0)]


def test_a_candidate_in_a_target_that_does_not_answer_is_left_alone() -> None:
    assert decide(view(candidate(EU, ready=False, reserved=True), order=()), 0.0) == [
        Wait("no target passes the filters")
    ]


@pytest.mark.parametrize(
    ("candidates", "changes", "made"),
    [
        pytest.param((), {}, [EU], id="the best first"),
        pytest.param((), {"most": 2}, [EU, US], id="two"),
        pytest.param((), {"most": 4}, [EU, US, AP], id="more than there are targets"),
        pytest.param((candidate(US),), {}, [], id="one is undecided, though another ranks better now"),
        pytest.param((candidate(EU, FULL),), {}, [US], id="the best is full"),
        pytest.param((candidate(EU, FULL), candidate(US)), {"most": 2}, [AP], id="one of two is full"),
        pytest.param((candidate(EU, going=True),), {}, [US], id="it is going"),
        pytest.param((candidate("gone"),), {}, [EU], id="its target does not fit any more"),
        pytest.param((), {"creating": frozenset((US,))}, [], id="one is being made"),
        pytest.param((), {"refused": frozenset((EU,))}, [US], id="the best has refused"),
        pytest.param((candidate(EU, FULL), candidate(US, FULL), candidate(AP, FULL)), {}, [], id="all are full"),
    ],
)
def test_with_a_bound_the_next_target_is_tried_after_a_refusal(
    candidates: tuple[Any, ...], changes: dict[str, Any], made: list[str]
) -> None:
    steps = decide(view(*candidates, **{"most": 1} | changes), 0.0)
    assert [step.node_name for step in steps if isinstance(step, Create)] == made


def test_with_a_bound_the_next_target_is_tried_after_a_silence() -> None:
    assert decide(view(candidate(EU), most=1), 29.0) == [Wait("", 1.0)]
    assert Create(US) in decide(view(candidate(EU), most=1), 30.0)


def test_with_a_bound_a_reservation_waits_for_no_target_without_a_candidate() -> None:
    assert decide(view(candidate(US, reserved=True), most=1), 0.0) == [Claim(US, "c-us")]
    assert decide(view(candidate(US, reserved=True), most=2), 0.0) == [Create(EU), Wait("", 2.0)]


def test_with_a_bound_it_is_told_once_every_target_has_refused() -> None:
    full = [candidate(node, FULL) for node in (EU, US, AP)]
    assert decide(view(*full, most=1), 0.0) == [Wait("eu: full; us: full; ap: full")]


def test_the_best_reservation_is_claimed_at_once() -> None:
    assert decide(view(candidate(EU, reserved=True), candidate(US)), 0.0) == [Claim(EU, "c-eu")]


def test_a_reservation_waits_a_little_for_a_better_one() -> None:
    found = view(candidate(EU), candidate(US, reserved=True), candidate(AP))
    assert decide(found, 1.5) == [Wait("", 0.5)]
    assert decide(found, 2.0) == [Claim(US, "c-us")]


def test_a_reservation_waits_for_a_better_target_that_is_being_asked() -> None:
    assert decide(view(candidate(US, reserved=True), creating=frozenset((EU, AP))), 0.0) == [Wait("", 2.0)]


@pytest.mark.parametrize("better", [candidate(EU, FULL), candidate(EU, going=True)], ids=["is full", "is going"])
def test_a_reservation_waits_for_no_better_candidate_that(better: Any) -> None:
    assert decide(view(better, candidate(US, reserved=True), candidate(AP)), 0.0) == [Claim(US, "c-us")]


def test_a_reservation_waits_for_no_target_that_has_refused_to_take_a_candidate() -> None:
    steps = decide(view(candidate(US, reserved=True), refused=frozenset((EU,))), 0.0)
    assert steps == [Claim(US, "c-us")]


def test_a_reservation_that_has_ended_is_asked_for_again() -> None:
    found = candidate(EU, reserve_ended="3", reserve_round="3")
    assert decide(view(found, order=(EU,)), 0.0) == [NextRound(EU, "c-eu", 4), Wait("", 30.0)]


def test_when_no_target_has_a_node_the_candidates_stay_and_the_pod_says_why() -> None:
    found = view(candidate(EU, FULL), candidate(US, FULL), order=(EU, US))
    assert decide(found, 100.0) == [Wait("eu: full; us: full")]
    assert reasons(found, 100.0) == {EU: "full", US: "full"}


def test_a_candidate_that_nobody_schedules_is_told_of_after_a_while() -> None:
    found = view(candidate(EU, FULL), candidate(US), order=(EU, US))
    assert decide(found, 10.0) == [Wait("", 20.0)]
    assert reasons(found, 10.0) == {EU: "full"}
    (step,) = decide(found, 30.0)
    assert isinstance(step, Wait)
    assert step.message.startswith("eu: full; us: no scheduler has reserved a node for the pod's candidate")
    assert step.seconds is None


def test_what_a_scheduler_says_of_a_candidate_that_is_pending_is_passed_on() -> None:
    failed = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "no extender"}
    assert reasons(view(candidate(EU, failed)), 30.0) == {EU: "no extender"}


def test_one_reservation_is_enough_for_nothing_to_be_told_of_the_silent() -> None:
    found = view(candidate(EU, reserved=True), candidate(US), permit=Permit(claim=False, message="it waits"))
    assert decide(found, 1e6)[-1] == Wait("it waits")


# With a claim


def test_the_claimed_candidate_is_allowed_and_the_others_go() -> None:
    assert decide(claimed(candidate(US, reserved=True)), 0.0) == [Allow(EU, "c-eu", "7"), Delete(US, "c-us", "7")]


def test_an_allowed_candidate_is_waited_for_although_its_hold_is_lost() -> None:
    assert decide(claimed(here=candidate(EU, allowed=True)), 1.0) == [Wait("", 59.0)]


def test_an_allowed_candidate_that_nobody_binds_is_given_up_after_its_time() -> None:
    timeouts = Timeouts(take_up=20.0)
    neglected = claimed(here=candidate(EU, allowed=True), timeouts=timeouts)
    assert decide(neglected, 19.0) == [Wait("", 1.0)]
    assert decide(neglected, 20.0) == [GiveUp(timeouts.neglect, "c-eu", "7")]
    reserved = claimed(here=candidate(EU, reserved=True, allowed=True), timeouts=timeouts)
    assert decide(reserved, 20.0) == [GiveUp(timeouts.neglect, "c-eu", "7")]


def test_it_stays_where_there_is_no_other_place_and_says_why() -> None:
    timeouts = Timeouts(take_up=20.0)
    found = claimed(here=candidate(EU, allowed=True), timeouts=timeouts, order=(EU,))
    assert decide(found, 20.0) == [Wait(timeouts.neglect)]


def test_preemption_for_an_allowed_candidate_is_waited_for() -> None:
    nominated = candidate(EU, FULL, allowed=True, state="pending", preempting=True)
    assert decide(claimed(here=nominated), 1e6) == [Wait()]


def test_the_pod_is_bound_when_its_delegate_has_a_node() -> None:
    assert decide(claimed(here=candidate(EU, SCHEDULED, allowed=True)), 0.0) == [Bind()]


def test_an_allowed_candidate_without_a_node_is_given_up_after_a_dwell() -> None:
    found = claimed(here=candidate(EU, FULL, allowed=True))
    assert decide(found, 4.0) == [Wait("full", 6.0)]
    assert decide(found, 10.0) == [GiveUp("full", "c-eu", "7")]


def test_an_allowed_candidate_without_a_node_stays_when_there_is_no_other_place() -> None:
    assert decide(claimed(here=candidate(EU, FULL, allowed=True), order=(EU,)), 1e6) == [Wait("full")]


def test_a_claimed_candidate_that_lost_its_node_before_it_was_allowed_is_given_up_at_once() -> None:
    assert decide(claimed(here=candidate(EU, FULL)), 0.0) == [GiveUp("full", "c-eu", "7")]


def test_a_claim_is_withdrawn_only_by_way_of_its_target() -> None:
    assert decide(claimed(here=candidate(US, reserved=True)), 0.0) == [Unclaim()]
    assert decide(claimed(here=candidate(EU, uid="another", reserved=True)), 0.0) == [Unclaim()]


def test_a_claimed_candidate_that_goes_is_waited_for() -> None:
    assert decide(claimed(candidate(US, reserved=True), here=candidate(EU, allowed=True, going=True)), 0.0) == [Wait()]


def test_a_claim_pins_the_pod_to_a_target_that_does_not_answer() -> None:
    away: dict[str, Any] = {"claim_ready": False, "claim_state": "no answer", "order": (US, AP)}
    steps = decide(claimed(candidate(US), here=candidate(EU, ready=False), **away), 1e6)
    assert steps == [Delete(US, "c-us", "7"), Wait("the pod is claimed by this target: no answer")]


def test_a_claim_by_a_target_that_was_removed_and_has_let_go_is_void() -> None:
    found = view(candidate(US, reserved=True), claim=EU, claim_known=False, claim_held=False, order=(US,))
    assert decide(found, 0.0) == [Claim(US, "c-us")]


def test_a_cluster_that_two_targets_lead_to_keeps_its_delegate() -> None:
    steps = decide(claimed(candidate(US, SCHEDULED, uid="c-eu", allowed=True)), 0.0)
    assert not any(isinstance(step, Delete) for step in steps)


# Candidates that another agent has allowed


def test_the_only_candidate_that_is_allowed_already_is_claimed() -> None:
    assert decide(view(candidate(EU, reserved=True), candidate(US, allowed=True)), 0.0) == [Claim(US, "c-us")]


def test_of_several_that_are_allowed_the_one_that_runs_is_kept_and_the_others_go_first() -> None:
    found = view(candidate(EU, allowed=True), candidate(US, SCHEDULED, allowed=True))
    assert decide(found, 0.0) == [Delete(EU, "c-eu", "7", confirm=True), Wait()]
    going = view(candidate(EU, allowed=True, going=True), candidate(US, SCHEDULED, allowed=True))
    assert decide(going, 0.0) == [Wait()]


def test_while_another_delegate_may_run_where_nobody_answers_nothing_is_claimed() -> None:
    found = view(candidate(EU, allowed=True), candidate(US, allowed=True, ready=False))
    (step,) = decide(found, 0.0)
    assert isinstance(step, Wait)
    assert US in step.message


# In a group


def test_a_pod_whose_group_waits_gives_back_what_it_has() -> None:
    assert decide(view(candidate(EU, reserved=True), permit=CLOSED), 0.0) == [
        Delete(EU, "c-eu", "7"),
        Wait("the group waits"),
    ]
    assert decide(claimed(permit=CLOSED), 0.0) == [Delete(EU, "c-eu", "7")]


def test_a_pod_whose_group_gathers_claims_nothing() -> None:
    steps = decide(view(candidate(EU, reserved=True), permit=GATHER), 10.0)
    assert steps == [Create(US), Create(AP), Wait("the group gathers")]


def test_a_claimed_pod_whose_group_is_not_complete_is_not_allowed() -> None:
    found = claimed(here=candidate(EU, reserve_ended="0"), permit=GATHER)
    assert decide(found, 0.0) == [NextRound(EU, "c-eu", 1), Wait("the group gathers")]


def test_once_the_group_has_begun_a_lost_reservation_is_no_way_back() -> None:
    assert decide(claimed(here=candidate(EU, FULL), permit=Permit(committed=True)), 0.0) == [Allow(EU, "c-eu", "7")]


def test_a_group_may_name_the_one_place() -> None:
    found = view(candidate(EU, reserved=True), candidate(US, reserved=True), permit=Permit(only=US, claim_at_once=True))
    assert decide(found, 0.0) == [Claim(US, "c-us")]


STATES = st.sampled_from(
    [
        {},
        {"reserved": True},
        {"allowed": True},
        {"reserve_ended": "0"},
        {"allowed": True, "going": True},
        {"reserved": True, "ready": False},
        {"allowed": True, "ready": False},
    ]
)
PERMITS = st.builds(Permit, *[st.booleans()] * 3, st.sampled_from(("", EU, US)), st.booleans(), st.booleans())


@given(
    st.lists(st.tuples(st.sampled_from((EU, US, AP)), STATES, st.booleans()), unique_by=lambda each: each[0]),
    st.sampled_from(("", EU, US)),
    st.booleans(),
    PERMITS,
    st.floats(0, 100),
)
def test_leave_is_given_to_the_claimed_only_and_claims_are_never_replaced(
    found: list[tuple[str, dict[str, Any], bool]], claim: str, ready: bool, permit: Permit, now: float
) -> None:
    candidates = [candidate(node, *([FULL] if full else []), **state) for node, state, full in found]
    steps = decide(view(*candidates, claim=claim, claim_ready=ready, permit=permit), now)
    for step in steps:
        match step:
            case Allow(node, uid, _):
                assert (node, uid) == (claim, f"c-{claim}")
                assert ready
            case Claim(node, _):
                assert not claim
                assert not any(s.allowed and s.node_name != node for s in candidates)
            case Delete(node, uid, _, confirm):
                here = next(s for s in candidates if s.uid == uid)
                assert here.live
                assert confirm == here.allowed
                assert node != claim or not permit.reserve
            case _:
                pass
