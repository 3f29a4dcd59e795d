from dataclasses import replace
from typing import Any

import pytest

from agent.scheduler.groups.decide import Stage, Verdict, decide, stage
from agent.scheduler.groups.members import Group, Member
from agent.scheduler.groups.turns import Memory, Timeouts, pause
from agent.scheduler.reserve.decide import Permit, ReservePod
from tests.scheduler.reserve.candidates import AP, EU, FULL, SCHEDULED, US, sighting, view

LIMITS = Timeouts()
HELD = sighting(EU, reserved=True)
HELD_IN_US = sighting(US, reserved=True)


def member(number: int, found: ReservePod | None = None, **changes: Any) -> Member:
    """Pods are as old as their numbers are small."""
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
    return Group(("default", name), members, Memory(**{"queued": 0.0} | memory))


def judge(found: Group, *rivals: Stage, now: float = 0.0) -> Verdict:
    return decide(found, rivals, now, LIMITS)


def only_gate(verdict: Verdict) -> Permit:
    """That of all members alike."""
    (gate,) = set(verdict.gates.values())
    return gate


def test_members_wait_for_each_other() -> None:
    gate = only_gate(judge(group(member(1))))
    assert not gate.enter
    assert "1 of 2 pods" in gate.message


def test_members_that_are_gated_are_told() -> None:
    message = only_gate(judge(replace(group(member(1)), gated=1))).message
    assert message.endswith("there are 1 of 2 pods in this namespace, and 1 with scheduling gates")


def test_a_complete_group_collects_reservations() -> None:
    verdict = judge(group(member(1), member(2)), now=5.0)
    gate = only_gate(verdict)
    assert (gate.enter, gate.claim, gate.allow) == (True, False, False)
    assert verdict.memory.since == 5.0
    assert (gate.message, verdict.seconds) == ("", 5.0)


def test_a_group_that_collects_for_long_says_so_in_place_of_what_it_said_before() -> None:
    verdict = judge(group(member(1), member(2), since=0.0), now=5.0)
    assert only_gate(verdict).message == "group train collects reservations for its 2 pods"
    assert verdict.seconds == 25.0


def test_when_every_member_has_a_reservation_all_are_claimed_and_none_is_allowed() -> None:
    gate = only_gate(judge(group(member(1, view(HELD)), member(2, view(HELD_IN_US)))))
    assert (gate.claim, gate.allow, gate.hurry, gate.only) == (True, False, True, "")


def test_an_agent_that_finds_some_claims_goes_on_with_the_others() -> None:
    gate = only_gate(judge(group(member(1, view(HELD, claim=EU)), member(2, view(HELD_IN_US)))))
    assert (gate.claim, gate.allow) == (True, False)


def test_a_group_of_a_namespace_that_is_not_enabled_does_not_begin_and_is_in_nobodys_way() -> None:
    closed = replace(group(member(1, view(HELD)), member(2, view(HELD, claim=EU))), closed="not enabled")
    gate = only_gate(judge(closed))
    assert (gate.enter, gate.message) == (False, "not enabled")
    assert not stage(closed).wants
    assert stage(replace(closed, closed="")).wants


def test_a_group_that_has_begun_before_its_namespace_was_closed_goes_on_with_those_that_are_claimed() -> None:
    begun = group(member(1, node_name=EU), member(2, view(HELD, claim=EU)), member(3))
    gates = judge(replace(begun, closed="not enabled")).gates
    assert (gates["u2"].enter, gates["u2"].allow) == (True, True)
    assert (gates["u3"].enter, gates["u3"].message) == (False, "not enabled")
    claimed = group(member(1, view(HELD, claim=EU)), member(2, view(HELD_IN_US, claim=US)))
    assert only_gate(judge(replace(claimed, closed="not enabled"))).firm


def test_when_every_member_is_claimed_there_is_no_way_back() -> None:
    lost = view(sighting(US, FULL), claim=US)
    gate = only_gate(judge(group(member(1, view(HELD, claim=EU)), member(2, lost), since=0.0), now=1e6))
    assert (gate.allow, gate.firm) == (True, True)


@pytest.mark.parametrize(
    "first",
    [
        member(1, view(sighting(EU, allowed=True), claim=EU)),
        member(1, view(sighting(EU, SCHEDULED), claim=EU)),
        member(1, node_name=EU),
        member(1, node_name=EU, over=True, owner="job"),
        member(1, node_name=EU, over=True, started="2026-01-01T00:01:00Z"),
    ],
    ids=["is allowed", "has a node", "is bound", "has been replaced by its Job", "is over already"],
)
def test_others_need_not_wait_once_a_member(first: Member) -> None:
    verdict = judge(group(first, member(2, owner="job")))
    assert verdict.gates["u2"] == Permit()


def test_pods_that_are_left_from_an_earlier_run_start_nothing() -> None:
    left = member(1, node_name=EU, over=True, owner="old", started="2026-01-01T00:00:01Z")
    assert not only_gate(judge(group(left, member(2, owner="new")))).enter


def test_a_member_that_dies_before_the_start_sends_the_others_back() -> None:
    gone = member(1, view(HELD), going=True)
    assert not judge(group(gone, member(2, view(HELD)), since=0.0)).gates["u2"].enter


def test_pods_beyond_the_size_wait_for_the_start() -> None:
    verdict = judge(group(member(3), member(1), member(2)))
    assert [uid for uid, gate in verdict.gates.items() if gate.enter] == ["u1", "u2"]
    assert "2 pods before this one" in verdict.gates["u3"].message


def test_a_claimed_pod_is_of_the_core_whatever_its_age() -> None:
    verdict = judge(group(member(1), member(2), member(3, view(HELD, claim=EU))))
    assert [uid for uid, gate in verdict.gates.items() if gate.enter] == ["u1", "u3"]


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
    gate = only_gate(judge(group(member(1), member(2, **second))))
    assert not gate.enter
    for word in words:
        assert word in gate.message


# One cluster


def test_a_group_for_one_cluster_takes_the_best_that_has_room_for_all() -> None:
    both = view(sighting(EU, FULL), HELD_IN_US, sighting(AP, reserved=True))
    found = group(
        member(1, both, policy="one-cluster"), member(2, replace(both, sightings=(HELD, *both.sightings[1:])))
    )
    members = tuple(replace(each, policy="one-cluster") for each in found.members)
    assert only_gate(judge(replace(found, members=members))).only == US


def test_a_group_for_one_cluster_waits_while_no_cluster_has_room_for_all() -> None:
    apart = (member(1, view(HELD), policy="one-cluster"), member(2, view(HELD_IN_US), policy="one-cluster"))
    assert not only_gate(judge(group(*apart))).claim


def test_who_comes_later_to_a_group_for_one_cluster_goes_to_that() -> None:
    begun = group(member(1, node_name=US, policy="one-cluster"), member(2, policy="one-cluster"))
    assert judge(begun).gates["u2"] == Permit(only=US)


# Timeout and turns


def test_after_a_time_everything_is_given_back_and_the_group_stays_away_for_a_while() -> None:
    waiting = group(member(1, view(HELD)), member(2), since=0.0)
    assert only_gate(judge(waiting, now=29.9)).enter
    verdict = judge(waiting, now=30.0)
    assert not only_gate(verdict).enter
    assert verdict.memory.since is None
    assert verdict.memory.queued == 30.0
    assert verdict.memory.until == 30.0 + (verdict.seconds or 0.0)
    assert not only_gate(judge(replace(waiting, memory=verdict.memory), now=verdict.memory.until - 0.1)).enter
    assert only_gate(judge(replace(waiting, memory=verdict.memory), now=verdict.memory.until)).enter


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (view(sighting(EU, FULL), sighting(US), sighting(AP)), ("default/p2 has none (", "ap: no sch", "; eu: full; ")),
        (view(order=()), ("default/p2 has none (no target passes the filters)",)),
        (view(), ("default/p2 has none (no target has answered)",)),
    ],
    ids=["who was refused and who said nothing", "there is no place", "nothing is known"],
)
def test_a_group_that_gives_back_says_which_member_lacks_what_until_its_next_turn(
    second: ReservePod, words: tuple[str, ...]
) -> None:
    waiting = group(member(1, view(HELD)), member(2, second), since=0.0)
    verdict = judge(waiting, now=30.0)
    told = only_gate(verdict).message
    assert all(word in told for word in ("group train got no reservation for every member in 30 s", *words))
    later = judge(replace(waiting, memory=verdict.memory), now=30.1)
    assert only_gate(later).message == told


def test_a_group_for_one_cluster_says_that_none_has_room_for_all() -> None:
    usual = {"policy": "one-cluster"}
    waiting = group(member(1, view(HELD), **usual), member(2, view(HELD_IN_US), **usual), since=0.0)
    assert "no target has room for all of it" in only_gate(judge(waiting, now=30.0)).message


def test_a_group_that_every_target_refuses_lets_others_have_their_turn_sooner() -> None:
    refused = member(2, view(*(sighting(node, FULL) for node in (EU, US, AP))))
    waiting = group(member(1, view(HELD)), refused, since=0.0)
    other = stage(group(member(3), member(4), name="other"))
    assert only_gate(judge(waiting, now=5.0)).enter
    assert not only_gate(judge(waiting, other, now=5.0)).enter


def test_pauses_grow_and_differ_between_groups() -> None:
    pauses = [pause(("default", "train"), "u1", tries, LIMITS) for tries in range(20)]
    for tries, seconds in enumerate(pauses):
        full = min(60.0, 2.0 * 2.0**tries)
        assert full / 2 <= seconds <= full * 1.5
    assert pauses != [pause(("default", "train"), "u2", tries, LIMITS) for tries in range(20)]


def test_of_two_groups_with_a_target_in_common_only_one_collects() -> None:
    one, two = group(member(1), member(2)), group(member(3), member(4), name="other")
    assert only_gate(judge(one, stage(two))).enter
    gate = only_gate(judge(two, stage(one)))
    assert not gate.enter
    assert "train" in gate.message


def test_groups_without_a_target_in_common_collect_at_the_same_time() -> None:
    one = group(member(1, view(order=(EU,))), member(2, view(order=(EU,))))
    two = group(member(3, view(order=(US,))), member(4, view(order=(US,))), name="other")
    assert only_gate(judge(one, stage(two))).enter
    assert only_gate(judge(two, stage(one))).enter


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
    rival = stage(group(member(3, priority=priority), member(4), name="other", **theirs))
    assert only_gate(judge(group(member(1), member(2), **mine), rival, now=10.0)).enter is first


def test_a_group_that_waits_for_members_or_has_begun_is_no_rival() -> None:
    short = stage(group(member(3), name="other"))
    begun = stage(group(member(3, node_name=EU), member(4), name="other"))
    assert only_gate(judge(group(member(1), member(2), queued=9.0), short, begun, now=10.0)).enter


# Room between the members of one group


def test_who_holds_several_reservations_gives_back_those_that_others_lack() -> None:
    greedy = view(HELD, HELD_IN_US, sighting(AP, FULL))
    lacking = view(*(sighting(node, FULL) for node in (EU, US)), order=(EU, US))
    verdict = judge(group(member(1, greedy), member(2, lacking)))
    assert verdict.gates["u1"].only in (EU, US)
    assert verdict.gates["u2"].only == ""


def test_what_is_kept_is_the_farthest_from_what_others_lack() -> None:
    lacking = view(sighting(EU, FULL), order=(EU,))
    stepping_stone = view(HELD, sighting(US, FULL), order=(EU, US))
    greedy = view(HELD_IN_US, sighting(AP, reserved=True), order=(US, AP))
    verdict = judge(group(*(member(n, v, size="3") for n, v in enumerate((lacking, stepping_stone, greedy)))))
    assert verdict.gates["u2"].only == AP
    assert verdict.gates["u1"].only == ""
