"""Who may have candidates, and who is next."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from agent.api.kinds import PODS
from agent.kube.client import encode
from agent.kube.store import Key, Object
from agent.scheduler.limits import PrioritySemaphore, TargetLimiter


def pod(name: str, priority: int = 0) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return Object(PODS, encode({"metadata": metadata, "spec": {"priority": priority}}))


def names(keys: Iterable[Key]) -> list[str]:
    return [name for _, name in keys]


@dataclass(frozen=True)
class At:
    """All that lines know of a target."""

    node_name: str


EU: Any = At("eu")
US: Any = At("us")


async def test_as_many_pods_as_there_are_places_have_their_turn_at_once() -> None:
    woken: list[Key] = []
    turnstile = PrioritySemaphore(lambda: 2, woken.append)
    first, second, third = pod("a"), pod("b"), pod("c")
    assert [turnstile.admits(each) for each in (first, second, third, first)] == [True, True, False, True]
    assert woken == []
    turnstile.leave(first.uid)
    assert names(woken) == ["c"]
    assert turnstile.admits(third)
    assert not turnstile.admits(first)


async def test_the_highest_priority_is_next_and_of_the_same_the_one_that_came_first() -> None:
    woken: list[Key] = []
    turnstile = PrioritySemaphore(lambda: 1, woken.append)
    turnstile.admits(pod("begun"))
    for each in (pod("low"), pod("first", 5), pod("second", 5), pod("first", 5)):
        assert not turnstile.admits(each)
    for uid in ("uid-begun", "uid-first", "uid-second", "uid-low"):
        turnstile.leave(uid)
    assert names(woken) == ["first", "second", "low"]


@pytest.mark.parametrize(
    ("leaving", "want"),
    [
        pytest.param(["second", "begun"], ["third"], id="while it waits"),
        pytest.param(["begun", "second"], ["second", "third"], id="when it has just got a place"),
    ],
)
async def test_a_pod_that_goes_is_passed_over(leaving: list[str], want: list[str]) -> None:
    woken: list[Key] = []
    turnstile = PrioritySemaphore(lambda: 1, woken.append)
    for each in ("begun", "second", "third"):
        turnstile.admits(pod(each))
    for each in leaving:
        turnstile.leave(f"uid-{each}")
    assert names(woken) == want


@pytest.mark.looptime
async def test_nobody_waits_for_a_pod_without_a_decision_for_longer_than_that(looptime: float) -> None:
    woken: list[Key] = []
    turnstile = PrioritySemaphore(lambda: 1, woken.append, seconds=5.0)
    turnstile.admits(pod("undecided"))
    turnstile.admits(pod("next"))
    await asyncio.sleep(4.9)
    assert woken == []
    await asyncio.sleep(0.2)
    assert names(woken) == ["next"]
    assert not turnstile.admits(pod("undecided"))


async def test_pods_in_line_keep_their_place_however_often_they_are_looked_at() -> None:
    woken: list[Key] = []
    lines = TargetLimiter({"eu": 1}.__getitem__, woken.append)
    with lines.turn(pod("begun"), EU) as begun:
        assert begun
        for name in ("first", "second", "second", "first"):
            with lines.turn(pod(name), EU) as turn:
                assert not turn
    assert names(woken) == ["first"]
    with lines.turn(pod("late"), EU) as late:
        assert not late
    with lines.turn(pod("first"), EU) as first:
        assert first
    assert names(woken) == ["first", "second"]


async def test_one_target_does_not_hold_up_another() -> None:
    lines = TargetLimiter({"eu": 1, "us": 1}.__getitem__, print)
    with lines.turn(pod("a"), EU) as a, lines.turn(pod("b"), US) as b:
        assert (a, b) == (True, True)


async def test_a_pod_that_goes_elsewhere_or_nowhere_leaves_its_line() -> None:
    woken: list[Key] = []
    lines = TargetLimiter({"eu": 1, "us": 1}.__getitem__, woken.append)
    with lines.turn(pod("begun"), EU):
        for name in ("elsewhere", "nowhere", "here"):
            with lines.turn(pod(name), EU) as turn:
                assert not turn
        with lines.turn(pod("elsewhere"), US) as turn:
            assert turn
        lines.leave("uid-nowhere")
        lines.leave("uid-unheard-of")
    assert names(woken) == ["here"]


@pytest.mark.looptime
async def test_more_may_go_when_a_target_is_prompt_again(looptime: float) -> None:
    most = {"eu": 1}
    woken: list[Key] = []
    lines = TargetLimiter(most.__getitem__, woken.append)
    with contextlib.ExitStack() as stack:
        with lines.turn(pod("a"), EU):
            with lines.turn(pod("b"), EU) as turn:
                assert not turn
            most["eu"] = 2
            assert stack.enter_context(lines.turn(pod("b"), EU))
        # It is no longer in line: what a has left is not for it, and its turn has no end but its own.
        assert woken == []
        assert stack.enter_context(lines.turn(pod("c"), EU))
        with lines.turn(pod("d"), EU) as turn:
            assert not turn
        await asyncio.sleep(60)
        assert woken == []
    assert names(woken) == ["d"]


@pytest.mark.looptime
async def test_a_turn_lasts_as_long_as_it_takes_but_one_that_is_not_taken_goes_to_the_next(looptime: float) -> None:
    woken: list[Key] = []
    lines = TargetLimiter({"eu": 1}.__getitem__, woken.append)
    with lines.turn(pod("begun"), EU):
        for name in ("idle", "next"):
            with lines.turn(pod(name), EU):
                pass
        await asyncio.sleep(60)
        assert woken == []
    assert names(woken) == ["idle"]
    await asyncio.sleep(5.1)
    assert names(woken) == ["idle", "next"]
    with lines.turn(pod("idle"), EU) as turn:
        assert not turn
