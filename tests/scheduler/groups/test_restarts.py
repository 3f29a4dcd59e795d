"""Groups with `group-on-failure: restart`: each loss deletes the whole group once and starts it again."""

import math
from dataclasses import replace
from typing import Any

import pytest

from agent.scheduler.groups.decide import GroupDecision, contender
from agent.scheduler.groups.members import Group, Member
from agent.scheduler.reserve.view import ReservePod
from tests.scheduler.groups.test_decide import HELD, HELD_IN_US, LIMITS, group, judge, member, only_permit
from tests.scheduler.reserve.candidates import EU, US, candidate, view

RESTART = {"size": "3", "on_failure": "restart", "owner": "job"}


def at_work(number: int, run: str = "r1", **changes: Any) -> Member:
    return member(number, **RESTART | {"node_name": EU, "run": run} | changes)


def new(number: int, found: ReservePod | None = None, **changes: Any) -> Member:
    return member(number, found, **RESTART | changes)


LOSSES: dict[str, dict[str, Any]] = {
    "failed": {"over": True},
    "is deleted": {"going": True},
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_when_one_member_is_lost_all_others_go_and_who_is_new_waits(loss: dict[str, Any]) -> None:
    decision = judge(group(at_work(1, **loss), at_work(2), at_work(3), new(4)))
    assert decision.to_delete == ("u2", "u3")
    assert decision.why == "group train has lost default/p1 and starts again as a whole"
    assert not decision.permits["u4"].reserve
    assert decision.permits["u4"].message == decision.why


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_group_that_keeps_its_members_replaces_one(loss: dict[str, Any]) -> None:
    others = (replace(each, on_failure=None, run="") for each in (at_work(1, **loss), at_work(2), at_work(3), new(4)))
    decision = judge(group(*others))
    assert decision.to_delete == ()
    assert decision.permits["u4"].reserve


def test_what_one_agent_has_begun_to_take_back_the_next_one_does() -> None:
    assert judge(group(at_work(2, going=True), at_work(3))).to_delete == ("u3",)


def test_what_could_not_be_deleted_is_deleted_though_the_loss_is_not_to_be_seen_any_more() -> None:
    first = judge(group(at_work(1, going=True), at_work(2), at_work(3)))
    left = replace(group(at_work(2), at_work(3)), memory=first.memory)
    again = judge(left)
    assert again.to_delete == ("u2", "u3")
    assert again.why == first.why, "it goes for the same reason"
    anew = replace(group(new(4), new(5), new(6)), memory=first.memory)
    assert judge(anew).memory.lost == ""


def test_a_member_that_failed_in_an_earlier_start_has_failed_once() -> None:
    old = at_work(1, over=True)
    assert judge(group(old, *(at_work(n, "r2") for n in (4, 5, 6)))).to_delete == ()
    again = judge(group(old, at_work(4, "r2", over=True), at_work(5, "r2"), at_work(6, "r2")))
    assert again.to_delete == ("u5", "u6")


def test_it_starts_again_as_one() -> None:
    old = at_work(1, over=True)
    short = only_permit(judge(group(old, new(4), new(5))))
    assert (short.reserve, short.message) == (
        False,
        "group train waits for its members: there are 2 of 3 pods in this namespace",
    )
    assert only_permit(judge(group(old, new(4), new(5), new(6)))).reserve


def test_members_claim_a_place_in_the_start_of_their_group() -> None:
    assert only_permit(judge(group(new(4), new(5), new(6)))).run == "u4"
    begun = judge(group(new(4, view(HELD, claim=EU), run="u4"), new(5, view(HELD_IN_US)), new(3, view(HELD))))
    assert {permit.run for permit in begun.permits.values()} == {"u4"}
    assert judge(group(at_work(1), at_work(2), at_work(3), new(4))).permits["u4"].run == "r1"
    kept = replace(new(4), on_failure=None)
    assert judge(group(kept)).permits["u4"].run == ""


def done(number: int, **changes: Any) -> Member:
    return at_work(number, over=True, done=True, **changes)


class TestMembersThatAreDone:
    def test_are_no_loss(self) -> None:
        assert judge(group(done(1), at_work(2), at_work(3))).to_delete == ()
        assert judge(group(done(1), done(2, going=True), at_work(3))).to_delete == ()

    def test_make_the_rest_that_starts_again_smaller(self) -> None:
        decision = judge(group(done(1), at_work(2, over=True), at_work(3)))
        assert decision.to_delete == ("u3",)
        assert only_permit(judge(group(done(1), at_work(2, over=True), new(4), new(5)))).reserve
        assert not only_permit(judge(group(done(1), at_work(2, over=True), new(4)))).reserve

    def test_of_an_earlier_job_count_for_nothing(self) -> None:
        old = done(1, run="r0", owner="old")
        assert not only_permit(judge(group(old, new(4), new(5)))).reserve

    def test_of_another_controller_count_where_they_ran_together(self) -> None:
        leader = done(1, owner="leader")
        assert only_permit(judge(group(leader, at_work(2, over=True), new(4), new(5)))).reserve

    def test_are_followed_one_by_one_once_there_are_as_many_as_start_together(self) -> None:
        decision = judge(group(done(1), done(2), done(3), new(4)))
        assert decision.permits["u4"].reserve
        assert decision.to_delete == ()
        assert judge(group(done(1), done(2), done(3), at_work(4, over=True), at_work(5))).to_delete == ()


def test_as_long_as_there_are_as_many_as_start_together_nothing_is_lost() -> None:
    assert judge(group(at_work(1, going=True), *(at_work(n) for n in (2, 3, 4)))).to_delete == ()


def test_a_member_lost_before_it_had_a_place_takes_nobody_with_it() -> None:
    claimed = new(1, view(HELD, claim=EU), run="r1", going=True)
    assert judge(group(claimed, new(2), new(3))).to_delete == ()


def test_what_nothing_would_make_anew_stays() -> None:
    decision = judge(group(at_work(1, over=True), at_work(2), at_work(3, owner="")))
    assert decision.to_delete == ("u2",)
    assert judge(group(at_work(1, over=True), at_work(3, owner=""))).to_delete == ()


def test_a_namespace_that_is_closed_keeps_what_it_has() -> None:
    closed = replace(group(at_work(1, over=True), at_work(2), at_work(3)), closed="not enabled")
    assert judge(closed).to_delete == ()


class TestPodsOfAnEarlierStart:
    going = at_work(1, going=True, grace=20.0)
    rest = (new(4, view(HELD)), new(5, view(HELD)), new(6, view(HELD)))

    def judged(self, now: float, before: GroupDecision | None = None, *more: Member) -> GroupDecision:
        found = group(self.going, *self.rest, *more)
        return judge(found if before is None else replace(found, memory=before.memory), now=now)

    def test_are_waited_for(self) -> None:
        decision = self.judged(100.0)
        permit = only_permit(decision)
        assert not permit.reserve
        assert permit.message == "group train starts again when default/p1 of its last start is gone"
        assert decision.seconds == 20.0 + LIMITS.timeout

    def test_keep_no_other_group_waiting_meanwhile(self) -> None:
        assert not contender(self.after(self.judged(100.0))).wants

    def test_are_not_waited_for_for_ever(self) -> None:
        early = self.judged(100.0)
        late = self.judged(100.0 + 20.0 + LIMITS.timeout, early)
        assert only_permit(late).reserve
        assert late.memory.drain_until == -math.inf
        assert contender(self.after(late)).wants
        assert only_permit(self.judged(1000.0, late)).claim

    def test_that_have_ended_are_gone(self) -> None:
        ended = replace(self.going, over=True)
        assert only_permit(judge(group(ended, *self.rest))).reserve

    def test_do_not_keep_a_start_from_going_on(self) -> None:
        first = new(3, view(candidate(US, allowed=True), claim=US), run="u3")
        assert self.judged(100.0, None, first).permits["u4"].reserve

    def after(self, decision: GroupDecision) -> Group:
        return replace(group(self.going, *self.rest), memory=decision.memory)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"on_failure": None}, ("group-on-failure", "default/p2 is keep", "default/p1 restart")),
        ({"on_failure": "again"}, ("group-on-failure", "default/p2 is 'again'", "write keep or restart")),
    ],
    ids=["another choice", "an unknown choice"],
)
def test_what_is_wrong_with_a_member_is_said_on_all(second: dict[str, Any], words: tuple[str, ...]) -> None:
    permit = only_permit(judge(group(new(1), new(2, **second), new(3))))
    assert not permit.reserve
    for word in words:
        assert word in permit.message
