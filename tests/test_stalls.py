"""The watchdog itself: it sees a loop that computes, a thread that holds the interpreter lock, and memory."""

import asyncio
import time

from tests.stalls import MEMORY_BYTES, STALL_SECONDS, StallWatch


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def hold_the_interpreter_lock() -> float:
    """Compute within one call of C code, which never releases the lock. Return the CPU seconds that it took."""
    began = time.thread_time()
    sum(range(40_000_000))
    return time.thread_time() - began


async def test_a_loop_that_only_waits_does_not_stall() -> None:
    async with StallWatch() as watch:
        await asyncio.sleep(0.5)
    assert watch.flaw() == ""
    assert watch.longest < STALL_SECONDS / 2


async def test_computing_on_the_loop_is_a_stall_and_its_stack_is_shown() -> None:
    async with StallWatch() as watch:
        await asyncio.sleep(0)
        compute(STALL_SECONDS * 10)
    assert watch.longest >= STALL_SECONDS * 10
    assert "compute(STALL_SECONDS * 10)" in watch.flaw()


async def test_a_thread_that_computes_in_python_does_not_stall_the_loop() -> None:
    async with StallWatch() as watch:
        await asyncio.to_thread(compute, STALL_SECONDS * 4)
    assert watch.flaw() == ""


async def test_a_thread_that_holds_the_interpreter_lock_stalls_the_loop() -> None:
    async with StallWatch() as watch:
        seconds = await asyncio.to_thread(hold_the_interpreter_lock)
    assert seconds > STALL_SECONDS
    assert watch.longest > seconds / 2


async def test_memory_beyond_the_limit_is_seen_also_when_it_was_given_back() -> None:
    async with StallWatch() as watch:
        taken = bytearray(MEMORY_BYTES + (16 << 20))
        for page in range(0, len(taken), 1 << 22):
            taken[page : page + (1 << 22)] = b"x" * (1 << 22)
            await asyncio.sleep(0)
        del taken
    assert "memory grew by" in watch.flaw()
