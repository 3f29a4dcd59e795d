"""Limit of concurrent requests to targets, and the order of waiting requests."""

import asyncio
import contextlib
from collections.abc import Iterable

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


EU, US = "eu", "us"


def admits(semaphore: PrioritySemaphore[Key], pod: Object) -> bool:
    return semaphore.admits(pod.uid, pod.key, pod.priority)


def slot(limiter: TargetLimiter[Key], pod: Object, node: str) -> contextlib.AbstractContextManager[bool]:
    return limiter.slot(node, pod.uid, pod.key, pod.priority)


async def test_so_many_pods_are_admitted_at_once() -> None:
    woken: list[Key] = []
    semaphore = PrioritySemaphore(lambda: 2, woken.append)
    first, second, third = pod("a"), pod("b"), pod("c")
    assert [admits(semaphore, each) for each in (first, second, third, first)] == [True, True, False, True]
    assert woken == []
    semaphore.release(first.uid)
    assert names(woken) == ["c"]
    assert admits(semaphore, third)
    assert not admits(semaphore, first)


async def test_the_highest_priority_is_next_and_of_the_same_the_one_that_came_first() -> None:
    woken: list[Key] = []
    semaphore = PrioritySemaphore(lambda: 1, woken.append)
    admits(semaphore, pod("begun"))
    for each in (pod("low"), pod("first", 5), pod("second", 5), pod("first", 5)):
        assert not admits(semaphore, each)
    for uid in ("uid-begun", "uid-first", "uid-second", "uid-low"):
        semaphore.release(uid)
    assert names(woken) == ["first", "second", "low"]


@pytest.mark.parametrize(
    ("leaving", "want"),
    [
        pytest.param(["second", "begun"], ["third"], id="while it waits"),
        pytest.param(["begun", "second"], ["second", "third"], id="when it has just been admitted"),
    ],
)
async def test_a_pod_that_goes_is_passed_over(leaving: list[str], want: list[str]) -> None:
    woken: list[Key] = []
    semaphore = PrioritySemaphore(lambda: 1, woken.append)
    for each in ("begun", "second", "third"):
        admits(semaphore, pod(each))
    for each in leaving:
        semaphore.release(f"uid-{each}")
    assert names(woken) == want


@pytest.mark.looptime
async def test_nobody_waits_for_a_pod_without_a_decision_for_longer_than_that(looptime: float) -> None:
    woken: list[Key] = []
    semaphore = PrioritySemaphore(lambda: 1, woken.append, seconds=5.0)
    admits(semaphore, pod("undecided"))
    admits(semaphore, pod("next"))
    await asyncio.sleep(4.9)
    assert woken == []
    await asyncio.sleep(0.2)
    assert names(woken) == ["next"]
    assert not admits(semaphore, pod("undecided"))


async def test_pods_that_wait_keep_their_place_however_often_they_are_looked_at() -> None:
    woken: list[Key] = []
    limiter = TargetLimiter({"eu": 1}.__getitem__, woken.append)
    with slot(limiter, pod("begun"), EU) as begun:
        assert begun
        for name in ("first", "second", "second", "first"):
            with slot(limiter, pod(name), EU) as turn:
                assert not turn
    assert names(woken) == ["first"]
    with slot(limiter, pod("late"), EU) as late:
        assert not late
    with slot(limiter, pod("first"), EU) as first:
        assert first
    assert names(woken) == ["first", "second"]


async def test_one_target_does_not_hold_up_another() -> None:
    limiter = TargetLimiter({"eu": 1, "us": 1}.__getitem__, print)
    with slot(limiter, pod("a"), EU) as a, slot(limiter, pod("b"), US) as b:
        assert (a, b) == (True, True)


async def test_a_pod_that_goes_elsewhere_or_nowhere_waits_no_longer() -> None:
    woken: list[Key] = []
    limiter = TargetLimiter({"eu": 1, "us": 1}.__getitem__, woken.append)
    with slot(limiter, pod("begun"), EU):
        for name in ("elsewhere", "nowhere", "here"):
            with slot(limiter, pod(name), EU) as turn:
                assert not turn
        with slot(limiter, pod("elsewhere"), US) as turn:
            assert turn
        limiter.cancel("uid-nowhere")
        limiter.cancel("uid-unheard-of")
    assert names(woken) == ["here"]


@pytest.mark.looptime
async def test_more_may_go_when_a_target_is_prompt_again(looptime: float) -> None:
    most = {"eu": 1}
    woken: list[Key] = []
    limiter = TargetLimiter(most.__getitem__, woken.append)
    with contextlib.ExitStack() as stack:
        with slot(limiter, pod("a"), EU):
            with slot(limiter, pod("b"), EU) as turn:
                assert not turn
            most["eu"] = 2
            assert stack.enter_context(slot(limiter, pod("b"), EU))
        # b no longer waits, so it is not woken for the slot that a releases.
        assert woken == []
        assert stack.enter_context(slot(limiter, pod("c"), EU))
        with slot(limiter, pod("d"), EU) as turn:
            assert not turn
        await asyncio.sleep(60)
        assert woken == []
    assert names(woken) == ["d"]


@pytest.mark.looptime
async def test_a_turn_lasts_as_long_as_it_takes_but_one_that_is_not_taken_goes_to_the_next(looptime: float) -> None:
    woken: list[Key] = []
    limiter = TargetLimiter({"eu": 1}.__getitem__, woken.append)
    with slot(limiter, pod("begun"), EU):
        for name in ("idle", "next"):
            with slot(limiter, pod(name), EU):
                pass
        await asyncio.sleep(60)
        assert woken == []
    assert names(woken) == ["idle"]
    await asyncio.sleep(5.1)
    assert names(woken) == ["idle", "next"]
    with slot(limiter, pod("idle"), EU) as turn:
        assert not turn
