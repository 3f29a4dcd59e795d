"""Who may have candidates, and who is next."""

import asyncio
from collections.abc import Iterable

import pytest

from agent.api.kinds import PODS
from agent.kube.client import encode
from agent.kube.store import Key, Object
from agent.scheduler.turnstile import Turnstile


def pod(name: str, priority: int = 0) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return Object(PODS, encode({"metadata": metadata, "spec": {"priority": priority}}))


def names(keys: Iterable[Key]) -> list[str]:
    return [name for _, name in keys]


async def test_as_many_pods_as_there_are_places_have_their_turn_at_once() -> None:
    woken: list[Key] = []
    turnstile = Turnstile(lambda: 2, woken.append)
    first, second, third = pod("a"), pod("b"), pod("c")
    assert [turnstile.admits(each) for each in (first, second, third, first)] == [True, True, False, True]
    assert woken == []
    turnstile.leave(first.uid)
    assert names(woken) == ["c"]
    assert turnstile.admits(third)
    assert not turnstile.admits(first)


async def test_the_highest_priority_is_next_and_of_the_same_the_one_that_came_first() -> None:
    woken: list[Key] = []
    turnstile = Turnstile(lambda: 1, woken.append)
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
    turnstile = Turnstile(lambda: 1, woken.append)
    for each in ("begun", "second", "third"):
        turnstile.admits(pod(each))
    for each in leaving:
        turnstile.leave(f"uid-{each}")
    assert names(woken) == want


@pytest.mark.looptime
async def test_nobody_waits_for_a_pod_without_a_decision_for_longer_than_that(looptime: float) -> None:
    woken: list[Key] = []
    turnstile = Turnstile(lambda: 1, woken.append, seconds=5.0)
    turnstile.admits(pod("undecided"))
    turnstile.admits(pod("next"))
    await asyncio.sleep(4.9)
    assert woken == []
    await asyncio.sleep(0.2)
    assert names(woken) == ["next"]
    assert not turnstile.admits(pod("undecided"))
