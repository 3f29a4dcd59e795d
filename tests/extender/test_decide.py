"""Every step of a hold, and proof that no sequence of events binds a pod wrongly."""

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.extender.decide import (
    ENDED,
    NOT_ALLOWED,
    STOPPING,
    Bind,
    BindAttempt,
    Chaperon,
    Pod,
    Refuse,
    Reserve,
    Wait,
    decide,
)
from agent.extender.wire import BindingArgs

ASKED = BindingArgs("web-1", "default", "P", "node-1")
POD = Pod("P", "PodChaperon", "web-1", "C")
ALLOWED = {names.ANNOTATION_IS_ALLOWED: "true"}
RESERVED = {names.ANNOTATION_IS_RESERVED: "true", names.ANNOTATION_HOLD: "h 2026-01-01T12:00:30Z"}
FLOTILLA = {names.LABEL_PARENT_UID: "S", names.LABEL_PARENT_CLUSTER_UID: "K"}
ADMIRALTY = {names.LABEL_PARENT_UID: "S"}
SUPERSEDED = Refuse("the scheduler has asked again for this pod: only its last attempt counts", "superseded")


def chaperon(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **more: Any) -> Chaperon:
    known = {"uid": "C", "version": "7", **more}
    return Chaperon(**known, labels=FLOTILLA if labels is None else labels, annotations=annotations or {})


def view(pod: Pod | None = POD, found: Chaperon | None = None, **more: Any) -> BindAttempt:
    return BindAttempt(ASKED, pod, found or chaperon(), "h", **more)


def rounds(asked: str | None, ended: str | None) -> dict[str, str]:
    both = {names.ANNOTATION_RESERVE_ROUND: asked, names.ANNOTATION_RESERVE_ENDED: ended}
    return {key: value for key, value in both.items() if value is not None}


def test_a_candidate_is_reserved_then_waits_then_is_bound_when_allowed() -> None:
    assert decide(view()) == Reserve("C", 0)
    assert decide(view(found=chaperon(RESERVED), reserved=True)) == Wait()
    assert decide(view(found=chaperon(RESERVED | ALLOWED), reserved=True)) == Bind()


def test_what_is_allowed_already_is_bound_without_being_reserved() -> None:
    assert decide(view(found=chaperon(ALLOWED))) == Bind()
    assert decide(view(found=chaperon(ALLOWED | rounds("1", "1")))) == Bind()


@pytest.mark.parametrize(
    ("pod", "found", "words"),
    [
        (None, chaperon(), "does not exist any more"),
        (dataclasses.replace(POD, uid="Q"), chaperon(), "has UID Q, not P: it was deleted and created again"),
        (Pod("P"), chaperon(), "not controlled by a PodChaperon of its name.*use another schedulerName"),
        (dataclasses.replace(POD, owner_kind="ReplicaSet"), chaperon(), "not controlled by a PodChaperon"),
        (dataclasses.replace(POD, owner_name="other"), chaperon(), "not controlled by a PodChaperon of its name"),
        (dataclasses.replace(POD, node="n"), chaperon(), "already bound to node n"),
        (dataclasses.replace(POD, deleting=True), chaperon(), "pod default/web-1 is being deleted"),
        (dataclasses.replace(POD, owner_uid="D"), chaperon(), r"an earlier PodChaperon of its name \(UID D, now C\)"),
        (POD, chaperon(deleting=True), "PodChaperon default/web-1 is being deleted"),
    ],
    ids=[
        "the pod is gone",
        "the name has another pod by now",
        "nobody controls it",
        "a ReplicaSet controls it",
        "a chaperon of another name controls it",
        "it has a node",
        "it is being deleted",
        "its chaperon was made again",
        "its chaperon is being deleted",
    ],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_what_is_not_ours_is_refused_with_the_reason(
    pod: Pod | None, found: Chaperon, words: str, allowed: bool
) -> None:
    if allowed:
        found = dataclasses.replace(found, annotations=ALLOWED)
    step = decide(view(pod, found))
    assert isinstance(step, Refuse)
    assert (step.outcome, step.clear, step.end) == ("refused", False, False)
    assert re.search(words, step.reason)


def test_a_chaperon_that_is_gone_is_said() -> None:
    step = decide(BindAttempt(ASKED, POD, None, "h"))
    assert step == Refuse("PodChaperon default/web-1 does not exist any more", "refused")


def test_a_pod_that_goes_while_it_is_held_is_no_fault_of_its_source() -> None:
    step = decide(view(None, chaperon(RESERVED), reserved=True))
    assert step == Refuse("pod default/web-1 does not exist any more", "gone", clear=True)


@pytest.mark.parametrize(
    ("found", "without_pod"),
    [(None, "gone"), (chaperon(RESERVED, deleting=True), "gone"), (chaperon(uid="D"), "superseded")],
    ids=["gone", "going", "made again"],
)
def test_a_held_candidate_whose_chaperon_goes_is_let_go_with_its_pod_and_nothing_is_written(
    found: Chaperon | None, without_pod: str
) -> None:
    """An earlier refusal would make the scheduler write a condition and retry."""
    held = BindAttempt(ASKED, POD, found, "h", reserved=True)
    assert decide(held) == Wait()
    for over, outcome in (
        (dataclasses.replace(held, pod=None), without_pod),
        (dataclasses.replace(held, expired=True), "gone"),
        (dataclasses.replace(held, stopping=True), "gone"),
    ):
        step = decide(over)
        assert isinstance(step, Refuse)
        assert (step.outcome, step.clear, step.end) == (outcome, False, False)


def test_of_a_chaperon_that_somebody_applies_owners_of_fields_go_on_being_tracked() -> None:
    assert decide(view(found=chaperon(applied=True))) == Reserve("C", 0, applied=True)


def test_a_hold_that_runs_out_is_cleared_and_of_a_source_that_knows_rounds_its_round_is_over() -> None:
    ended = {**RESERVED, **rounds("3", "2")}
    want = Refuse(NOT_ALLOWED, "not_allowed", clear=True, end=True)
    assert decide(view(found=chaperon(ended), reserved=True, expired=True)) == want


def test_of_a_source_that_knows_no_rounds_the_candidate_is_held_again_each_time() -> None:
    want = Refuse(NOT_ALLOWED, "not_allowed", clear=True, end=False)
    assert decide(view(found=chaperon(RESERVED, ADMIRALTY), reserved=True, expired=True)) == want
    assert decide(view(found=chaperon(rounds(None, "0"), ADMIRALTY))) == Reserve("C", 0)


@pytest.mark.parametrize(
    ("asked", "ended", "over"),
    [
        (None, None, False),
        (None, "0", True),
        ("0", "0", True),
        ("1", "0", False),
        ("1", "1", True),
        ("0", "1", True),
        ("10", "9", False),
        ("many", "0", True),
        ("1", "none", False),
        ("9" * 5000, "0", True),
    ],
)
def test_a_round_that_is_over_is_refused_until_a_higher_one_is_asked_for(
    asked: str | None, ended: str | None, over: bool
) -> None:
    step = decide(view(found=chaperon(rounds(asked, ended))))
    assert step == Refuse(ENDED, "ended") if over else isinstance(step, Reserve)


def test_leave_that_comes_as_time_runs_out_counts() -> None:
    assert decide(view(found=chaperon(RESERVED | ALLOWED), reserved=True, expired=True)) == Bind()


def test_only_the_newest_hold_counts_in_this_replica_and_in_any() -> None:
    theirs = RESERVED | ALLOWED | {names.ANNOTATION_HOLD: "other 2026-01-01T12:00:30Z"}
    assert decide(view(found=chaperon(theirs), reserved=True)) == SUPERSEDED
    assert decide(view(found=chaperon(RESERVED | ALLOWED), reserved=True, newest=False)) == SUPERSEDED
    assert decide(view(found=chaperon(ALLOWED), newest=False)) == SUPERSEDED


def test_a_newer_hold_takes_over_what_an_older_one_has_left() -> None:
    theirs = RESERVED | {names.ANNOTATION_HOLD: "other 2026-01-01T12:00:30Z"}
    assert decide(view(found=chaperon(theirs))) == Reserve("C", 0)


def test_an_agent_that_stops_takes_its_reservations_back_and_still_binds_what_is_allowed() -> None:
    assert decide(view(stopping=True)) == Refuse(STOPPING, "stopping")
    held = view(found=chaperon(RESERVED), reserved=True, stopping=True)
    assert decide(held) == Refuse(STOPPING, "stopping", clear=True)
    assert decide(view(found=chaperon(RESERVED | ALLOWED), reserved=True, stopping=True)) == Bind()


PODS = st.none() | st.builds(
    Pod,
    st.sampled_from("PQ"),
    st.sampled_from(["", "PodChaperon", "Job"]),
    st.sampled_from(["web-1", "x"]),
    st.sampled_from("CD"),
    st.sampled_from(["", "n"]),
    st.booleans(),
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        names.ANNOTATION_IS_ALLOWED: st.just("true"),
        names.ANNOTATION_IS_RESERVED: st.just("true"),
        names.ANNOTATION_HOLD: st.sampled_from(["h ", "other 2026-01-01T12:00:30Z", ""]),
        names.ANNOTATION_RESERVE_ROUND: st.sampled_from(["0", "1", "x"]),
        names.ANNOTATION_RESERVE_ENDED: st.sampled_from(["0", "1", "x"]),
    },
)
CHAPERONS = st.none() | st.builds(
    Chaperon, st.sampled_from("CD"), st.just("7"), st.sampled_from([FLOTILLA, ADMIRALTY]), ANNOTATIONS, st.booleans()
)
FLAG = st.booleans()


@given(st.builds(BindAttempt, st.just(ASKED), PODS, CHAPERONS, st.just("h"), FLAG, FLAG, FLAG, FLAG))
def test_nothing_is_bound_but_an_allowed_unbound_candidate_by_its_newest_hold(view: BindAttempt) -> None:
    step = decide(view)
    if isinstance(step, Bind):
        assert view.newest
        assert view.pod == POD
        assert view.chaperon is not None
        assert (view.chaperon.uid, view.chaperon.deleting) == ("C", False)
        assert names.ANNOTATION_IS_ALLOWED in view.chaperon.annotations
        assert not view.reserved or view.chaperon.annotations[names.ANNOTATION_HOLD].startswith("h ")


@given(st.builds(BindAttempt, st.just(ASKED), PODS, CHAPERONS, st.just("h"), FLAG, FLAG, FLAG, FLAG))
def test_a_hold_clears_only_its_own_mark_and_never_leave_that_was_given(view: BindAttempt) -> None:
    step = decide(view)
    if isinstance(step, Refuse) and (step.clear or step.end):
        assert step.clear
        assert view.reserved
        assert view.chaperon is not None
        assert view.chaperon.annotations[names.ANNOTATION_HOLD].startswith("h ")
    if isinstance(step, Refuse) and step.end:
        assert view.chaperon is not None
        assert view.expired
        assert names.ANNOTATION_IS_ALLOWED not in view.chaperon.annotations


@given(st.builds(BindAttempt, st.just(ASKED), PODS, CHAPERONS, st.just("h"), FLAG, FLAG, st.just(True), FLAG))
def test_time_that_is_up_ends_every_hold(view: BindAttempt) -> None:
    assert not isinstance(decide(view), Wait)
