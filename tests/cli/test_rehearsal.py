"""Rehearsal of a failover: whether all pods of a target fit into the other targets. Without clusters."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import NODES, PODS
from agent.cli.explaining.facts import Facts, Seen
from agent.cli.moving.fates import NO_ROOM, Fate, rehearsed, summary
from agent.cli.moving.rehearsal import Rehearsal
from agent.cli.moving.world import World, homes_of, lost_home
from agent.kube.store import Object
from agent.settings import Settings
from tests.cli.moving import EU, NOW, US, homes_of_eu, pod, target
from tests.cli.test_explaining import proxy, seen


def leaving(name: str, cpu: str, priority: int = 0) -> Object:
    """Return a pod that runs in `eu`."""
    raw = proxy(cpu, name=name).decode()
    raw["spec"] |= {"nodeName": EU, "priority": priority}
    return Object(PODS, msgspec.json.encode({**raw, "status": {"phase": "Running"}}))


def node(name: str, free: dict[str, str] | None = None) -> Object:
    said = {names.ANNOTATION_FREE: msgspec.json.encode(free).decode()} if free is not None else {}
    labels = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
    return Object(NODES, msgspec.json.encode({"metadata": {"name": name, "annotations": said, "labels": labels}}))


def rehearse(*pods: Object, targets: tuple[Seen, ...], nodes: tuple[Object, ...] = ()) -> dict[str, tuple[str, str]]:
    facts = [Facts(each, None, pods, targets) for each in pods]
    found = Rehearsal(facts, {each.name: each for each in nodes}, Settings(), NOW).run()
    return {uid.removeprefix("uid-"): each for uid, each in found.items()}


def test_free_capacity_is_counted_once_for_all_pods() -> None:
    pods = [leaving(name, "2") for name in "abc"]
    alone = [rehearse(each, targets=(seen("us", cpu="4"),)) for each in pods]
    assert [found[name][0] for name, found in zip("abc", alone, strict=True)] == ["us"] * 3
    found = rehearse(*pods, targets=(seen("us", cpu="4"),))
    assert [found[name][0] for name in "abc"] == ["us", "us", ""]
    assert "insufficient cpu on every node" in found["c"][1]
    both = rehearse(*pods, targets=(seen("us", cpu="4"), seen("ap", cpu="2")))
    assert sorted(target for target, _ in both.values()) == ["ap", "us", "us"]


def test_pods_of_a_high_priority_come_first_and_then_the_largest() -> None:
    pods = [leaving("small", "1"), leaving("large", "3"), leaving("vital", "2", priority=9)]
    found = rehearse(*pods, targets=(seen("us", cpu="5"),))
    assert {name: target for name, (target, _) in found.items()} == {"vital": "us", "large": "us", "small": ""}


def test_of_a_target_that_may_not_be_asked_the_sums_of_its_virtual_node_count() -> None:
    silent = Seen(replace(seen("us").info, shapes=()))
    nodes = (node(US, {"cpu": "3", "memory": "8Gi", "pods": "110"}),)
    found = rehearse(leaving("a", "2"), leaving("b", "2"), targets=(silent,), nodes=nodes)
    assert found["a"] == ("us", "")
    assert (found["b"][0], "us: not enough cpu" in found["b"][1]) == ("", True)


def test_what_finds_no_room_does_not_move_and_is_counted() -> None:
    fate = Fate("default", "a", "u-a", "eu", (), moves=True, reason="", how="its replacement first", final=False)
    fates = [fate, replace(fate, uid="u-b"), replace(fate, uid="u-c", moves=False, reason="Held", how="why")]
    found = rehearsed(fates, {"u-a": ("us", ""), "u-b": ("", "0/1 targets are available: us: no cpu")})
    assert [(each.to, each.moves, each.reason) for each in found] == [
        (("us",), True, ""),
        ((), False, NO_ROOM),
        ((), False, "Held"),
    ]
    assert (
        found[1].how
        == "its replacement first, but once those before it have moved 0/1 targets are available: us: no cpu"
    )
    assert summary(found) == "of 3 pods 1 move, 1 find no room, 1 stay"


@pytest.mark.parametrize(("kept", "left"), [("60", 0.0), ("", None)], ids=["fenced", "without a fence"])
def test_a_target_that_is_to_be_lost_has_stopped_fenced_pods_and_certifies_nothing(kept: str, left: Any) -> None:
    home = lost_home(homes_of_eu(reachable=True))
    assert (home.answers, home.certified) == (False, False)
    assert home.standing.has_lost(float("inf"), None)
    assert not home.standing.has_lost(float("inf"), float("inf")), "never"
    assert home.fence(pod("db-0", fence_kept=kept), 30.0, NOW) == left


@pytest.mark.parametrize(
    ("others", "held"),
    [
        ((), True),
        ((("u-2", "True"), ("u-3", "True")), False),
        ((("u-2", "True"), ("u-3", "False")), True),
        ((("u-1", "True"), ("u-1", "True")), False),
    ],
    ids=["alone", "one of three", "two of three", "reached by another Target"],
)
def test_a_rehearsal_knows_whether_failover_would_be_held(others: tuple[tuple[str, str], ...], held: bool) -> None:
    """Each other Target is a pair: its cluster's UID and its condition Reachable."""

    def said(uid: str, answers: str) -> dict[str, Any]:
        return {"clusterUID": uid, "conditions": [{"type": "Reachable", "status": answers, "reason": "Probed"}]}

    targets = [target("eu", said("u-1", "True"))]
    targets += [target(f"t{number}", said(*each)) for number, each in enumerate(others)]
    homes = homes_of(targets)
    homes[EU] = lost_home(homes[EU])
    assert World((), homes, {}).is_failover_held is held
