"""Work in threads: the event loop continues, and a tenant with many pieces of work delays only itself."""

import asyncio
import threading
import time

import pytest

from agent.base.offloop import THREADS, off_loop
from agent.base.yielding import SLICE, in_turns
from tests.stalls import STALL_SECONDS, StallWatch


def compute(seconds: float) -> str:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return threading.current_thread().name


async def test_the_loop_goes_on_while_a_thread_computes() -> None:
    async with StallWatch() as watch:
        assert (await off_loop("shop", compute, STALL_SECONDS * 4)).startswith("offloop")
    assert watch.flaw() == ""


async def test_an_exception_of_the_function_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        await off_loop("shop", lambda: 1 // 0)


async def test_a_tenant_with_many_pieces_of_work_delays_others_by_one_piece() -> None:
    many = [asyncio.create_task(off_loop("loud", compute, 0.05)) for _ in range(20)]
    await asyncio.sleep(0.01)
    for _ in range(THREADS):
        await off_loop("quiet", compute, 0.0)
    assert sum(task.done() for task in many) < len(many) / 2
    await asyncio.gather(*many)


async def test_after_a_cancellation_the_next_piece_of_the_tenant_waits_for_the_end_of_the_first() -> None:
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        end.wait(10)

    first = asyncio.create_task(off_loop("shop", wait))
    assert await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(off_loop("shop", compute, 0.0))
    await asyncio.sleep(0.05)
    assert not second.done()
    end.set()
    await second


async def test_a_tenant_that_is_cancelled_while_it_waits_keeps_nobody_waiting() -> None:
    end = threading.Event()
    first = asyncio.create_task(off_loop("shop", end.wait, 10))
    second = asyncio.create_task(off_loop("shop", compute, 0.0))
    third = asyncio.create_task(off_loop("shop", compute, 0.0))
    await asyncio.sleep(0.01)
    second.cancel()
    end.set()
    await asyncio.gather(first, third)


async def test_a_loop_over_many_items_yields() -> None:
    async def work() -> int:
        return len([compute(SLICE / 4) async for _ in in_turns(range(200))])

    async with StallWatch() as watch:
        assert await work() == 200
    assert watch.longest < SLICE * 10
