"""A lock that shares take in turns, by the time for which they have held it."""

import asyncio
from collections.abc import Sequence

import pytest

from agent.base.fairlock import FairLock


class Turns:
    """Waiters of a lock under a simulated clock; `order` lists the holders in turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lock = FairLock(lambda: self.now)
        self.order: list[str] = []

    async def take(self, share: str, seconds: float) -> None:
        async with self.lock.turn(share):
            self.order.append(share)
            await asyncio.sleep(0)
            self.now += seconds

    async def run(self, waiters: Sequence[tuple[str, float]]) -> str:
        await asyncio.gather(*(self.take(*each) for each in waiters))
        return "".join(self.order)


@pytest.mark.parametrize(
    ("waiters", "order"),
    [
        pytest.param([("a", 1)] * 20 + [("b", 1)], "ab" + "a" * 19, id="one waits for one turn of many"),
        pytest.param([("a", 1)] * 3 + [("b", 1)] * 3, "ababab", id="equal turns alternate"),
        pytest.param([("a", 5)] * 3 + [("b", 1)] * 6, "abbbbbaba", id="who takes longer comes less often"),
        pytest.param([("", 1)] * 3 + [("b", 1)], "b", id="a share without a name"),
    ],
)
async def test_the_share_that_has_used_least_is_next(waiters: list[tuple[str, float]], order: str) -> None:
    assert await Turns().run(waiters) == order


async def test_a_share_that_comes_late_has_no_credit_for_the_time_before() -> None:
    turns = Turns()
    busy = asyncio.create_task(turns.run([("a", 1)] * 8))
    for _ in range(6):
        await asyncio.sleep(0)
    assert 1 < len(turns.order) < 8
    await asyncio.gather(turns.run([("b", 1)] * 3), busy)
    assert turns.order.count("b") == 3
    assert "bb" not in "".join(turns.order)


async def test_a_waiter_that_is_cancelled_passes_its_turn_on() -> None:
    turns = Turns()
    async with turns.lock.turn("a"):
        waiting = [asyncio.create_task(turns.take(share, 1)) for share in "bcd"]
        await asyncio.sleep(0)
        waiting[0].cancel()
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert turns.order == ["d"]
    async with asyncio.timeout(5), turns.lock.turn("a"):
        pass


async def test_an_error_in_a_turn_ends_it() -> None:
    lock = FairLock()
    with pytest.raises(ValueError, match="no"):
        async with lock.turn("a"):
            raise ValueError("no")
    async with asyncio.timeout(5), lock.turn("b"):
        pass
