"""Retries of waiting pods."""

import asyncio
from collections import Counter

from agent.kube.store import Key
from agent.scheduler.waiting import BURST_SECONDS, SHARE, WaitingPods
from tests.waiting import until

COST = 0.01


class Tries:
    """Pods whose tries fail immediately."""

    def __init__(self, priorities: dict[Key, int], cost: float = COST) -> None:
        self.tried: list[Key] = []
        self.waiting = WaitingPods(self._try, lambda key: -priorities[key], lambda: cost)
        for key in priorities:
            self.waiting.wait(key, in_vain=True)

    def _try(self, key: Key, in_vain: bool) -> None:
        assert in_vain
        self.tried.append(key)
        self.waiting.wait(key, in_vain=True)


def pods(count: int) -> dict[Key, int]:
    return {("ns", f"pod-{number}"): number % 10 for number in range(count)}


async def test_few_waiting_pods_are_all_tried_at_once() -> None:
    tries = Tries(pods(20))
    tries.waiting.changed()
    assert set(tries.tried) == set(pods(20))


async def test_changes_without_end_take_a_share_of_the_time_however_many_pods_wait() -> None:
    tries = Tries(pods(5000))
    began = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - began < 0.5:
        tries.waiting.changed()
        await asyncio.sleep(0.005)
    took = asyncio.get_running_loop().time() - began
    assert len(tries.tried) <= 2 + (BURST_SECONDS + took * SHARE) / COST
    assert len(tries.tried) >= (BURST_SECONDS + took * SHARE) / COST / 2


async def test_the_highest_priority_is_tried_first_and_after_one_change_every_pod_once() -> None:
    priorities = pods(300)
    tries = Tries(priorities, cost=0.0025)
    tries.waiting.changed()
    first = list(tries.tried)
    assert 0 < len(first) < 300
    assert sorted((priorities[key] for key in priorities), reverse=True)[: len(first)] == [
        priorities[key] for key in first
    ]
    await until(lambda: len(tries.tried) >= 300, 10)
    await asyncio.sleep(0.1)
    assert Counter(tries.tried) == Counter(dict.fromkeys(priorities, 1))


async def test_a_pod_that_has_left_is_not_tried() -> None:
    tries = Tries(pods(3), cost=10)
    tries.waiting.changed()
    (first,) = tries.tried
    left = next(key for key in pods(3) if key != first)
    assert tries.waiting.leave(left)
    assert not tries.waiting.leave(left)
    tries.waiting.try_again(left, in_vain=False)
    assert not tries.waiting.leave(left)


async def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    waiting = WaitingPods(lambda key, in_vain: None, lambda key: 0, lambda: 1000.0)
    for number in range(10_000):
        waiting.try_again(("ns", f"pod-{number}"), in_vain=True)
        waiting.leave(("ns", f"pod-{number}"))
    assert len(waiting._heap) < 2_000
