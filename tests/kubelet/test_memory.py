"""Answers that count for some seconds."""

import asyncio

import pytest

from agent.kubelet import memory
from agent.kubelet.memory import Memory


class Source:
    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    async def find(self) -> int:
        self.asked += 1
        await asyncio.sleep(0.1)
        if self.error is not None:
            raise self.error
        return self.asked


@pytest.mark.looptime
async def test_an_answer_counts_for_its_time_and_no_longer() -> None:
    source, known = Source(), Memory[str, int](10.0)
    assert await known.get("a", source.find) == 1
    await asyncio.sleep(9)
    assert await known.get("a", source.find) == 1
    await asyncio.sleep(2)
    assert await known.get("a", source.find) == 2
    assert await known.get("b", source.find) == 3


@pytest.mark.looptime
async def test_the_time_may_depend_on_the_answer() -> None:
    source = Source()
    known = Memory[str, int](lambda value: 100.0 if value > 1 else 1.0)
    await known.get("a", source.find)
    await asyncio.sleep(2)
    await known.get("a", source.find)
    await asyncio.sleep(50)
    assert await known.get("a", source.find) == 2


@pytest.mark.looptime
async def test_who_asks_at_the_same_time_shares_the_answer() -> None:
    source, known = Source(), Memory[str, int](10.0)
    assert await asyncio.gather(*(known.get("a", source.find) for _ in range(10))) == [1] * 10


@pytest.mark.looptime
async def test_a_failure_is_not_kept() -> None:
    source, known = Source(), Memory[str, int](10.0)
    source.error = ValueError()
    with pytest.raises(ValueError):  # noqa: PT011 - our own, from above
        await known.get("a", source.find)
    source.error = None
    assert await known.get("a", source.find) == 2


async def test_the_oldest_of_too_many_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST", 3)
    known = Memory[int, int](10.0)

    async def find(value: int) -> int:
        return value

    for value in range(5):
        await known.get(value, lambda value=value: find(value))
    assert list(known._known) == [2, 3, 4]
    assert known._locks == {}
