"""Groups of misplaced pods: all of them move, or none does, and the capacity has to suffice for all at once."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.moves.mover.capacity import Packing, room, room_for_all
from agent.moves.mover.decide import decide
from agent.moves.mover.view import Evict, Owner, Pod, Tell, Together
from agent.moves.mover.whole_groups import Member, together
from agent.ranking.node_fit import NodeFit
from agent.ranking.snapshot import Free, PodTemplate, Shape, TargetInfo

CPU = 10**9
ROOM = str
"""A capacity check that returns no objection."""
MEMBER = Member(
    "a-0", node="eu", cause="Targets", move="evict", size="3", on_failure="restart", targets=("us", "ap"), answers=True
)


def three(**first: Any) -> list[Member]:
    """Return a group of three pods in eu that have to move, with other fields for the first."""
    return [replace(MEMBER, **first), replace(MEMBER, name="a-1"), replace(MEMBER, name="a-2")]


def test_a_group_that_says_that_it_may_and_has_room_goes() -> None:
    assert together("a", three(), ROOM) == Together()


@pytest.mark.parametrize(
    ("first", "reason", "words"),
    [
        ({"move": ""}, "Held", "pod a-0"),
        ({"move": "never"}, "Held", "pod a-0"),
        ({"on_failure": ""}, "Held", "group-on-failure=restart"),
        ({"kind": ""}, "Held", "something makes them again"),
        ({"size": "4"}, "Held", "do not agree"),
        ({"size": "many"}, "Held", "do not agree"),
        ({"policy": "one-cluster"}, "Held", "do not agree"),
        ({"claim": "data"}, "DataElsewhere", "claim data of pod a-0"),
        ({"claim": "data", "cause": ""}, "", ""),
        ({"answers": False}, "Held", "pod a-0 does not answer"),
        ({"answers": False, "cause": ""}, "Held", "pod a-0 does not answer"),
        ({"answers": False, "cause": "Lost"}, "IdentityMayRun", "pod a-0"),
        ({"answers": False, "cause": "Lost", "fence": 12.0}, "IdentityMayRun", "stopped it in 20 s"),
        ({"answers": False, "cause": "Lost", "fence": 0.0}, "", ""),
        ({"answers": False, "cause": "Lost", "kind": "ReplicaSet"}, "", ""),
        ({"answers": False, "cause": "Lost", "certified": True}, "", ""),
    ],
)
def test_what_one_pod_says_holds_for_all(first: dict[str, Any], reason: str, words: str) -> None:
    found = together("a", three(**first), ROOM)
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize(
    "first",
    [{"deleting": True}, {"node": ""}, {"phase": "Failed"}],
    ids=["one of it goes", "one has no target yet", "one has failed"],
)
def test_a_group_that_starts_again_is_left_alone(first: dict[str, Any]) -> None:
    assert together("a", three(**first), lambda: "no room") == Together(waits=True)


def test_who_has_done_his_part_is_not_missed() -> None:
    assert together("a", three(phase="Succeeded"), ROOM) == Together()


def test_without_room_nothing_goes() -> None:
    assert together("a", three(), lambda: "too little") == Together("NoRoom", "too little")


# Capacity for all -----------------------------------------------------------------------------------------------------


def packing(name: str, *cpus: int, closed: bool = False, told: bool = True) -> Packing:
    """Return the capacity of a target whose nodes each have this much free."""
    free = msgspec.json.encode({"cpu": str(sum(cpus)), "pods": "99"}).decode()
    node: dict[str, Any] = {"metadata": {"name": name, "annotations": {names.ANNOTATION_FREE: free}}}
    node["spec"] = {"unschedulable": closed}
    if not told:
        return Packing(node, None)
    left = tuple(Free({"cpu": cpu * CPU, "pods": 99 * CPU}, 1) for cpu in cpus)
    shape = Shape({}, (), False, {"cpu": 99 * CPU}, len(cpus), left)
    return Packing(
        node, NodeFit(TargetInfo(name, name, "", True, "", {}, (), False, {"cpu": 99 * CPU}, shapes=(shape,)))
    )


def test_room_for_one_is_looked_for_node_by_node_as_well() -> None:
    assert room(asking(3).wanted, [packing("us", 2, 2, told=False)]) == ""
    assert room(asking(3).wanted, [packing("us", 2, 2)]).startswith("us: ")
    assert room(asking(2).wanted, [packing("us", 2, 2)]) == ""
    assert room(None, [packing("us")]) == ""


def test_room_ends_where_the_limits_of_the_target_do() -> None:
    wanted = asking(3).wanted
    assert wanted is not None
    node = {"metadata": {"name": "us"}, "spec": {}}
    assert room(wanted, [Packing(node, None, {"cpu": 6 * CPU}, {"cpu": 3 * CPU})]) == ""
    full = Packing(node, None, {"cpu": 6 * CPU}, {"cpu": 4 * CPU})
    assert room(wanted, [full]) == "us: limit cpu of the target reached"
    more = Packing(node, None, {"pods": CPU})
    assert (more.take(wanted), more.take(wanted)) == (True, False)


def asking(cpu: int, **more: Any) -> Member:
    template = PodTemplate("default", {}, {}, {"cpu": cpu * CPU, "pods": CPU})
    return replace(MEMBER, wanted=template, **more)


@pytest.mark.parametrize(
    ("packings", "one", "fits"),
    [
        ([packing("us", 3, 3, 3)], False, True),
        ([packing("us", 3, 3)], False, False),
        ([packing("us", 2, 2, 2, 2, 2)], False, False),
        ([packing("us", 2, 2, 2, 2, 2, told=False)], False, True),
        ([packing("us", 3, 3), packing("ap", 3)], False, True),
        ([packing("us", 3, 3), packing("ap", 3)], True, False),
        ([packing("us", 3, 3), packing("ap", 9)], True, True),
        ([packing("us", 3, 3), packing("ap", 9, closed=True)], False, False),
        ([packing("eu", 9), packing("us", 3, 3)], False, False),
        ([], False, False),
    ],
)
def test_room_is_for_all_at_once_and_node_by_node(packings: list[Packing], one: bool, fits: bool) -> None:
    assert (room_for_all([asking(3)] * 3, packings, one=one) == "") is fits


def test_who_is_well_placed_takes_the_room_that_he_has() -> None:
    stays = asking(3, node="us", cause="", targets=("us", "ap"))
    assert room_for_all([stays, asking(3)], [packing("us", 3)], one=False) == ""
    assert room_for_all([stays, asking(3)], [packing("us", 3)], one=True) == ""
    assert "0 of the 2 pods" in room_for_all([replace(stays, node="ap"), asking(3)], [packing("us", 2)], one=True)


def test_the_largest_are_put_first() -> None:
    assert room_for_all([asking(1), asking(3)], [packing("us", 1), packing("ap", 3)], one=False) == ""
    assert room_for_all([asking(1), asking(3)], [packing("ap", 3), packing("us", 1)], one=False) == ""


def test_why_there_is_no_room_is_told() -> None:
    said = room_for_all([asking(3)] * 3, [packing("us", 3, 3), packing("ap", 9, closed=True)], one=False)
    assert said == "there is room for 2 of the 3 pods of its group that have to go at once (ap: cordoned)"


# Decisions ------------------------------------------------------------------------------------------------------------


def decided(said: Together, way: Any = "evict", **owner: Any) -> list[Any]:
    pods = [Pod(f"a-{number}", f"u{number}", cause="Targets", together=said) for number in range(3)]
    return decide(Owner("StatefulSet", "a", way, replicas=3, **owner), pods).actions


def test_one_eviction_is_the_move_of_a_group() -> None:
    actions = decided(Together())
    assert [action.old.name for action in actions if isinstance(action, Evict)] == ["a-2"]
    assert [(action.pod.name, action.reason) for action in actions if isinstance(action, Tell)] == [
        ("a-2", "Moving"),
        ("a-1", "Moving"),
        ("a-0", "Moving"),
    ]


@pytest.mark.parametrize("reason", ["Held", "NoRoom", "DataElsewhere", "IdentityMayRun"])
def test_what_keeps_a_group_is_told_by_every_pod_and_nothing_is_done(reason: Any) -> None:
    actions = decided(Together(reason, "why"))
    assert [(action.reason, action.message.endswith("; why")) for action in actions] == [(reason, True)] * 3


def test_nothing_is_written_on_pods_of_a_group_that_starts_again() -> None:
    assert decided(Together(waits=True)) == []


def test_a_group_does_not_move_while_its_owner_rolls_out_and_never_by_replacement() -> None:
    assert {action.reason for action in decided(Together(), held="its StatefulSet rolls out")} == {"Held"}
    assert {action.reason for action in decided(Together(), way="surge")} == {"Held"}
