"""Each cancellation reaches exactly its own task, and none is lost."""

import asyncio

import pytest

from agent.base.cancelling import Interrupted, cancelled_only_if_told
from agent.base.stacks import stack_of


async def test_a_future_that_was_cancelled_is_no_cancellation_of_who_waits_for_it() -> None:
    shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def waits() -> str:
        try:
            with cancelled_only_if_told():
                await shared
        except Interrupted:
            return "goes on"
        return "done"

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    shared.cancel()
    assert await task == "goes on"


@pytest.mark.parametrize("error", [OSError("lost"), TimeoutError(), RuntimeError()], ids=repr)
async def test_a_cancellation_that_turns_into_another_error_stays_one(error: Exception) -> None:
    async def waits() -> None:
        with cancelled_only_if_told():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise error from None

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_other_errors_and_a_plain_cancellation_come_through_as_they_are() -> None:
    with pytest.raises(OSError, match="lost"), cancelled_only_if_told():
        raise OSError("lost")


async def test_a_limit_counts_whether_it_is_inside_or_around() -> None:
    async def waits(*, inside: float | None, around: float | None) -> None:
        async with asyncio.timeout(around):
            with cancelled_only_if_told():
                async with asyncio.timeout(inside):
                    await asyncio.Event().wait()

    for limits in ({"inside": 0.001, "around": None}, {"inside": None, "around": 0.001}):
        with pytest.raises(TimeoutError):
            await waits(**limits)


async def test_a_stack_shows_every_coroutine_on_the_way_to_what_a_task_waits_for() -> None:
    async def innermost() -> None:
        await asyncio.Event().wait()

    async def items():  # type: ignore[no-untyped-def]
        await innermost()
        yield 1

    async def outermost() -> None:
        async for _ in items():
            pass

    task = asyncio.create_task(outermost())
    await asyncio.sleep(0)
    shown = stack_of(task)
    assert [shown.index(f" in {name}\n") for name in ("outermost", "items", "innermost", "wait")] == sorted(
        shown.index(f" in {name}\n") for name in ("outermost", "items", "innermost", "wait")
    )
    assert "<Future pending" in shown
    task.cancel()
