from dataclasses import replace
from typing import Any

import pytest

from agent.scheduler.groups.decide import Contender, GroupDecision, contender, decide
from agent.scheduler.groups.members import Group, Member
from agent.scheduler.groups.order import GroupMemory, Timeouts, pause
from agent.scheduler.reserve.view import Permit, ReservePod
from tests.scheduler.reserve.candidates import AP, EU, FULL, SCHEDULED, US, candidate, view

LIMITS = Timeouts()
HELD = candidate(EU, reserved=True)
HELD_IN_US = candidate(US, reserved=True)


def member(number: int, found: ReservePod | None = None, **changes: Any) -> Member:
    """Return a member; a pod with a smaller number is older."""
    usual: dict[str, Any] = {
        "name": f"default/p{number}",
        "uid": f"u{number}",
        "created": f"2026-01-01T00:00:{number:02}Z",
        "size": "2",
        "view": view() if found is None else found,
    }
    if changes.get("node_name") or changes.get("over"):
        usual["view"] = None
    return Member(**usual | changes)


def group(*members: Member, name: str = "train", **memory: Any) -> Group:
    return Group(("default", name), members, GroupMemory(**{"queued": 0.0} | memory))


def judge(found: Group, *rivals: Contender, now: float = 0.0) -> GroupDecision:
    return decide(found, rivals, now, LIMITS)


def only_permit(decision: GroupDecision) -> Permit:
    """Return the permit, which all members must share."""
    (permit,) = set(decision.permits.values())
    return permit


def test_members_wait_for_each_other() -> None:
    permit = only_permit(judge(group(member(1))))
    assert not permit.reserve
    assert "1 of 2 pods" in permit.message


def test_members_that_are_gated_are_told() -> None:
    message = only_permit(judge(replace(group(member(1)), gated=1))).message
    assert message.endswith("there are 1 of 2 pods in this namespace, and 1 with scheduling gates")


def test_a_complete_group_collects_reservations() -> None:
    decision = judge(group(member(1), member(2)), now=5.0)
    permit = only_permit(decision)
    assert (permit.reserve, permit.claim, permit.allow) == (True, False, False)
    assert decision.memory.since == 5.0
    assert (permit.message, decision.seconds) == ("", 5.0)


def test_a_group_that_collects_for_long_says_so_in_place_of_what_it_said_before() -> None:
    decision = judge(group(member(1), member(2), since=0.0), now=5.0)
    assert only_permit(decision).message == "group train collects reservations for its 2 pods"
    assert decision.seconds == 25.0


def test_when_every_member_has_a_reservation_all_are_claimed_and_none_is_allowed() -> None:
    permit = only_permit(judge(group(member(1, view(HELD)), member(2, view(HELD_IN_US)))))
    assert (permit.claim, permit.allow, permit.claim_at_once, permit.only) == (True, False, True, "")


def test_an_agent_that_finds_some_claims_goes_on_with_the_others() -> None:
    permit = only_permit(judge(group(member(1, view(HELD, claim=EU)), member(2, view(HELD_IN_US)))))
    assert (permit.claim, permit.allow) == (True, False)


def test_a_group_of_a_namespace_that_is_not_enabled_does_not_begin_and_is_in_nobodys_way() -> None:
    closed = replace(group(member(1, view(HELD)), member(2, view(HELD, claim=EU))), closed="not enabled")
    permit = only_permit(judge(closed))
    assert (permit.reserve, permit.message) == (False, "not enabled")
    assert not contender(closed).wants
    assert contender(replace(closed, closed="")).wants


def test_a_group_that_has_begun_before_its_namespace_was_closed_goes_on_with_those_that_are_claimed() -> None:
    begun = group(member(1, node_name=EU), member(2, view(HELD, claim=EU)), member(3))
    permits = judge(replace(begun, closed="not enabled")).permits
    assert (permits["u2"].reserve, permits["u2"].allow) == (True, True)
    assert (permits["u3"].reserve, permits["u3"].message) == (False, "not enabled")
    claimed = group(member(1, view(HELD, claim=EU)), member(2, view(HELD_IN_US, claim=US)))
    assert only_permit(judge(replace(claimed, closed="not enabled"))).committed


def test_when_every_member_is_claimed_there_is_no_way_back() -> None:
    lost = view(candidate(US, FULL), claim=US)
    permit = only_permit(judge(group(member(1, view(HELD, claim=EU)), member(2, lost), since=0.0), now=1e6))
    assert (permit.allow, permit.committed) == (True, True)


@pytest.mark.parametrize(
    "first",
    [
        member(1, view(candidate(EU, allowed=True), claim=EU)),
        member(1, view(candidate(EU, SCHEDULED), claim=EU)),
        member(1, node_name=EU),
        member(1, node_name=EU, over=True, owner="job"),
        member(1, node_name=EU, over=True, started="2026-01-01T00:01:00Z"),
    ],
    ids=["is allowed", "has a node", "is bound", "has been replaced by its Job", "is over already"],
)
def test_others_need_not_wait_once_a_member(first: Member) -> None:
    decision = judge(group(first, member(2, owner="job")))
    assert decision.permits["u2"] == Permit(begun=True)


def test_pods_that_are_left_from_an_earlier_run_start_nothing() -> None:
    left = member(1, node_name=EU, over=True, owner="old", started="2026-01-01T00:00:01Z")
    assert not only_permit(judge(group(left, member(2, owner="new")))).reserve


def test_a_member_that_dies_before_the_start_sends_the_others_back() -> None:
    gone = member(1, view(HELD), going=True)
    assert not judge(group(gone, member(2, view(HELD)), since=0.0)).permits["u2"].reserve


def test_pods_beyond_the_size_wait_for_the_start() -> None:
    decision = judge(group(member(3), member(1), member(2)))
    assert [uid for uid, permit in decision.permits.items() if permit.reserve] == ["u1", "u2"]
    assert "2 pods before this one" in decision.permits["u3"].message


def test_a_claimed_pod_is_of_the_core_whatever_its_age() -> None:
    decision = judge(group(member(1), member(2), member(3, view(HELD, claim=EU))))
    assert [uid for uid, permit in decision.permits.items() if permit.reserve] == ["u1", "u3"]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"size": "3"}, ("group-size", "default/p2 is 3", "default/p1 2")),
        ({"policy": "one-cluster"}, ("group-policy", "default/p2 is one-cluster", "default/p1 any")),
        ({"policy": "some"}, ("group-policy", "default/p2 is 'some'", "any or one-cluster")),
        ({"size": "0"}, ("group-size", "default/p2 is '0'", "1 or more")),
        ({"size": None}, ("group-size", "default/p2 is missing")),
    ],
    ids=["another size", "another policy", "an unknown policy", "a size of nothing", "no size"],
)
def test_what_is_wrong_with_a_member_is_said_on_all(second: dict[str, Any], words: tuple[str, ...]) -> None:
    permit = only_permit(judge(group(member(1), member(2, **second))))
    assert not permit.reserve
    for word in words:
        assert word in permit.message


# One cluster


def test_a_group_for_one_cluster_takes_the_best_that_has_room_for_all() -> None:
    both = view(candidate(EU, FULL), HELD_IN_US, candidate(AP, reserved=True))
    found = group(
        member(1, both, policy="one-cluster"), member(2, replace(both, candidates=(HELD, *both.candidates[1:])))
    )
    members = tuple(replace(each, policy="one-cluster") for each in found.members)
    assert only_permit(judge(replace(found, members=members))).only == US


def test_a_group_for_one_cluster_waits_while_no_cluster_has_room_for_all() -> None:
    apart = (member(1, view(HELD), policy="one-cluster"), member(2, view(HELD_IN_US), policy="one-cluster"))
    assert not only_permit(judge(group(*apart))).claim


def test_who_comes_later_to_a_group_for_one_cluster_goes_to_that() -> None:
    begun = group(member(1, node_name=US, policy="one-cluster"), member(2, policy="one-cluster"))
    assert judge(begun).permits["u2"] == Permit(only=US, begun=True)


# Timeout and turns


def test_after_a_time_everything_is_given_back_and_the_group_stays_away_for_a_while() -> None:
    waiting = group(member(1, view(HELD)), member(2), since=0.0)
    assert only_permit(judge(waiting, now=29.9)).reserve
    decision = judge(waiting, now=30.0)
    assert not only_permit(decision).reserve
    assert decision.memory.since is None
    assert decision.memory.queued == 30.0
    assert decision.memory.until == 30.0 + (decision.seconds or 0.0)
    assert not only_permit(judge(replace(waiting, memory=decision.memory), now=decision.memory.until - 0.1)).reserve
    assert only_permit(judge(replace(waiting, memory=decision.memory), now=decision.memory.until)).reserve


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (
            view(candidate(EU, FULL), candidate(US), candidate(AP)),
            ("default/p2 has none (", "ap: no sch", "; eu: full; "),
        ),
        (view(order=()), ("default/p2 has none (no target passes the filters)",)),
        (view(), ("default/p2 has none (no target has answered)",)),
    ],
    ids=["who was refused and who said nothing", "there is no place", "nothing is known"],
)
def test_a_group_that_gives_back_says_which_member_lacks_what_until_its_next_turn(
    second: ReservePod, words: tuple[str, ...]
) -> None:
    waiting = group(member(1, view(HELD)), member(2, second), since=0.0)
    decision = judge(waiting, now=30.0)
    told = only_permit(decision).message
    assert all(word in told for word in ("group train got no reservation for every member in 30 s", *words))
    later = judge(replace(waiting, memory=decision.memory), now=30.1)
    assert only_permit(later).message == told


def test_a_group_for_one_cluster_says_that_none_has_room_for_all() -> None:
    usual = {"policy": "one-cluster"}
    waiting = group(member(1, view(HELD), **usual), member(2, view(HELD_IN_US), **usual), since=0.0)
    assert "no target has room for all of it" in only_permit(judge(waiting, now=30.0)).message


def test_a_group_that_every_target_refuses_lets_others_have_their_turn_sooner() -> None:
    refused = member(2, view(*(candidate(node, FULL) for node in (EU, US, AP))))
    waiting = group(member(1, view(HELD)), refused, since=0.0)
    other = contender(group(member(3), member(4), name="other"))
    assert only_permit(judge(waiting, now=5.0)).reserve
    assert not only_permit(judge(waiting, other, now=5.0)).reserve


def test_pauses_grow_and_differ_between_groups() -> None:
    pauses = [pause(("default", "train"), "u1", tries, LIMITS) for tries in range(20)]
    for tries, seconds in enumerate(pauses):
        full = min(60.0, 2.0 * 2.0**tries)
        assert full / 2 <= seconds <= full * 1.5
    assert pauses != [pause(("default", "train"), "u2", tries, LIMITS) for tries in range(20)]


def test_of_two_groups_with_a_target_in_common_only_one_collects() -> None:
    one, two = group(member(1), member(2)), group(member(3), member(4), name="other")
    assert only_permit(judge(one, contender(two))).reserve
    permit = only_permit(judge(two, contender(one)))
    assert not permit.reserve
    assert "train" in permit.message


def test_groups_without_a_target_in_common_collect_at_the_same_time() -> None:
    one = group(member(1, view(order=(EU,))), member(2, view(order=(EU,))))
    two = group(member(3, view(order=(US,))), member(4, view(order=(US,))), name="other")
    assert only_permit(judge(one, contender(two))).reserve
    assert only_permit(judge(two, contender(one))).reserve


@pytest.mark.parametrize(
    ("mine", "theirs", "first"),
    [
        ({}, {"priority": 5}, False),
        ({"since": 0.0}, {"priority": 5}, True),
        ({"queued": 9.0}, {"queued": 8.0}, False),
        ({}, {"until": 50.0, "priority": 5}, True),
    ],
    ids=[
        "priority counts",
        "a turn is not taken away",
        "who has got nothing goes behind",
        "who stays away is no rival",
    ],
)
def test_the_turn_goes_by(mine: dict[str, Any], theirs: dict[str, Any], first: bool) -> None:
    priority = theirs.pop("priority", 0)
    rival = contender(group(member(3, priority=priority), member(4), name="other", **theirs))
    assert only_permit(judge(group(member(1), member(2), **mine), rival, now=10.0)).reserve is first


def test_a_group_that_waits_for_members_or_has_begun_is_no_rival() -> None:
    short = contender(group(member(3), name="other"))
    begun = contender(group(member(3, node_name=EU), member(4), name="other"))
    assert only_permit(judge(group(member(1), member(2), queued=9.0), short, begun, now=10.0)).reserve


# Capacity between the members of one group


def test_who_holds_several_reservations_gives_back_those_that_others_lack() -> None:
    greedy = view(HELD, HELD_IN_US, candidate(AP, FULL))
    lacking = view(*(candidate(node, FULL) for node in (EU, US)), order=(EU, US))
    decision = judge(group(member(1, greedy), member(2, lacking)))
    assert decision.permits["u1"].only in (EU, US)
    assert decision.permits["u2"].only == ""


def test_what_is_kept_is_the_farthest_from_what_others_lack() -> None:
    lacking = view(candidate(EU, FULL), order=(EU,))
    stepping_stone = view(HELD, candidate(US, FULL), order=(EU, US))
    greedy = view(HELD_IN_US, candidate(AP, reserved=True), order=(US, AP))
    decision = judge(group(*(member(n, v, size="3") for n, v in enumerate((lacking, stepping_stone, greedy)))))
    assert decision.permits["u2"].only == AP
    assert decision.permits["u1"].only == ""


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        ("web", "web", ""),
        ("web", "", "is none and on pod default/p1 web"),
        ("web", "web, group canary", "is web, group canary and on pod default/p1 web"),
    ],
    ids=["the same", "one follows none", "another decision group"],
)
def test_all_members_follow_the_same_placement(first: str, second: str, want: str) -> None:
    found = judge(group(member(1, placement=first), member(2, placement=second)))
    message = only_permit(found).message
    whole = f"metadata.annotations[multicluster/placement] of pod default/p2 {want}: write the same on all pods"
    assert whole in message if want else "multicluster/placement" not in message
