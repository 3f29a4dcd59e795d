"""Cooperative yielding: CPU-bound coroutines take turns in order of arrival."""

import asyncio
import time
from collections import Counter

import pytest

from agent.base import yielding
from agent.base.yielding import SLICE, Share, take_turn


def work(seconds: float = 0.001) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def passes(count: int) -> None:
    """Run this many passes of the event loop; each answer from a network takes some."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_who_has_little_to_do_is_done_long_before_those_who_never_wait() -> None:
    done: Counter[int] = Counter()

    async def busy(number: int) -> None:
        for _ in range(50):
            await take_turn()
            work()
            done[number] += 1

    tasks = [asyncio.create_task(busy(number)) for number in range(20)]
    await passes(20)
    assert done.total() < 500
    await asyncio.gather(*tasks)
    assert set(done.values()) == {50}


async def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    order: list[int] = []

    async def busy(number: int) -> None:
        for _ in range(4):
            await take_turn()
            work(SLICE / 2)
            order.append(number)

    await asyncio.gather(*(busy(number) for number in range(8)))
    # The first coroutine has the first slice for itself; then every coroutine has a turn before any has another.
    assert max(order.index(number) for number in range(8)) < 12
    assert Counter(order) == dict.fromkeys(range(8), 4)


async def test_who_gives_up_waiting_keeps_nobody_else_from_their_turn() -> None:
    async def busy() -> None:
        for _ in range(5):
            await take_turn()
            work(SLICE)

    tasks = [asyncio.create_task(busy()) for _ in range(10)]
    await passes(3)
    for task in tasks[::2]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes[1::2] == [None] * 5


@pytest.mark.parametrize("portion", [1 / 3, 0.1])
async def test_a_share_is_no_more_than_its_portion_of_the_time(portion: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(yielding.time, "monotonic", lambda: now)
    monkeypatch.setattr(yielding.asyncio, "sleep", sleep)
    share = Share(portion)
    for _ in range(1000):
        now += 0.002
        await share.worked(0.002)
    assert portion * (now - 1000) + SLICE >= 2.0
    now += 3600
    # An idle period gives no additional slices later.
    before = now
    for _ in range(1000):
        now += 0.002
        await share.worked(0.002)
    assert portion * (now - before) + 2 * SLICE >= 2.0


async def test_all_of_the_time_is_no_limit_but_turns() -> None:
    share = Share()
    for _ in range(100):
        await share.worked(SLICE)
