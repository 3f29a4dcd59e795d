"""Answers cached for some seconds."""

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


@pytest.mark.looptime
async def test_who_waits_for_what_fails_is_told_and_nobody_asks_again_for_each() -> None:
    source, known = Source(), Memory[str, int](10.0)
    source.error = ValueError()
    found = await asyncio.gather(*(known.get("a", source.find) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(each, ValueError) for each in found)
    assert source.asked == 1


@pytest.mark.looptime
async def test_who_waits_goes_on_when_the_one_who_asked_has_given_up() -> None:
    source, known = Source(), Memory[str, int](10.0)
    first = asyncio.ensure_future(known.get("a", source.find))
    others = [asyncio.ensure_future(known.get("a", source.find)) for _ in range(3)]
    await asyncio.sleep(0.05)
    others[0].cancel()
    first.cancel()
    found = await asyncio.gather(first, *others, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in found] == [True, True, False, False]
    assert found[2:] == [2, 2]


@pytest.mark.looptime
async def test_who_gives_up_together_with_the_one_who_asked_does_not_go_on() -> None:
    source, known = Source(), Memory[str, int](10.0)
    first = asyncio.ensure_future(known.get("a", source.find))
    other = asyncio.ensure_future(known.get("a", source.find))
    await asyncio.sleep(0.05)
    first.cancel()
    other.cancel()
    found = await asyncio.gather(first, other, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in found] == [True, True]
    assert source.asked == 1


async def test_the_oldest_of_too_many_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST", 3)
    known = Memory[int, int](10.0)

    async def find(value: int) -> int:
        return value

    for value in range(5):
        await known.get(value, lambda value=value: find(value))
    assert list(known._known) == [2, 3, 4]
    assert known._pending == {}
