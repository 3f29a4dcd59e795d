import asyncio
import itertools

import pytest

from agent.base.metrics import TASK_FAILURES
from agent.runtime.supervisor import Supervisor


@pytest.mark.looptime
async def test_a_task_that_fails_starts_again_after_growing_delays(looptime: float) -> None:
    starts: list[float] = []

    async def fails() -> None:
        starts.append(looptime + 0)
        raise RuntimeError("broken")

    async with Supervisor() as supervisor:
        supervisor.spawn("fails", fails)
        await asyncio.sleep(300)
    pauses = [after - before for before, after in itertools.pairwise(starts)]
    assert all(0.5 * min(30, 0.5 * 2**n) <= pause <= min(30, 0.5 * 2**n) for n, pause in enumerate(pauses))
    assert len(pauses) >= 12


@pytest.mark.looptime
async def test_a_task_that_ran_long_before_it_failed_starts_again_soon(looptime: float) -> None:
    starts: list[float] = []

    async def fails() -> None:
        starts.append(looptime + 0)
        await asyncio.sleep(100 if len(starts) > 8 else 0)
        raise RuntimeError("broken")

    async with Supervisor() as supervisor:
        supervisor.spawn("fails", fails)
        await asyncio.sleep(400)
    assert starts[9] - starts[8] < 101


@pytest.mark.looptime
async def test_what_waits_to_be_started_again_is_named_with_its_reason_and_counted() -> None:
    before = TASK_FAILURES.labels("flaky")._value.get()
    done = asyncio.Event()
    tries = 0

    async def flaky() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("broken")
        done.set()
        await asyncio.Event().wait()

    async with Supervisor() as supervisor:
        supervisor.spawn("flaky", flaky)
        await asyncio.sleep(0.1)
        assert supervisor.failures == {"flaky": "RuntimeError: broken"}
        await done.wait()
        assert supervisor.failures == {}
    assert TASK_FAILURES.labels("flaky")._value.get() == before + 1


@pytest.mark.looptime
async def test_a_task_that_returns_is_finished() -> None:
    runs = 0

    async def once() -> None:
        nonlocal runs
        runs += 1

    async with Supervisor() as supervisor:
        supervisor.spawn("once", once)
        await asyncio.sleep(1000)
    assert runs == 1


async def test_the_end_of_the_block_ends_all_tasks_and_waits_for_their_tidying_up() -> None:
    tidied: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            tidied.append("done")

    async with Supervisor() as supervisor:
        supervisor.spawn("one", tidy)
        supervisor.spawn("two", tidy)
        await asyncio.sleep(0)
    assert tidied == ["done", "done"]


async def test_one_task_can_be_stopped_without_the_others() -> None:
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Supervisor() as supervisor:
        stop = supervisor.spawn("stopped", waits)
        await asyncio.sleep(0)
        stop()
        await asyncio.wait_for(ended.wait(), 5)


@pytest.mark.looptime
async def test_what_loses_its_cancellation_is_cancelled_again() -> None:
    lost = []

    async def deaf() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not lost:
                lost.append(1)
                raise OSError("the connection was closed") from None
            raise

    async with Supervisor() as supervisor:
        stop = supervisor.spawn("stopped", deaf)
        await asyncio.sleep(1)
        stop()
        await asyncio.sleep(60)
        assert supervisor.failures == {}
        assert not supervisor._tasks
        lost.clear()
        supervisor.spawn("ended", deaf)
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 60


@pytest.mark.looptime
async def test_a_task_goes_on_after_a_cancellation_that_was_meant_for_somebody_else() -> None:
    runs = 0

    async def waits_for_others() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            shared = asyncio.get_running_loop().create_future()
            shared.cancel()
            await shared
        await asyncio.Event().wait()

    async with Supervisor() as supervisor:
        supervisor.spawn("waits", waits_for_others)
        await asyncio.sleep(10)
    assert runs == 2


@pytest.mark.looptime
async def test_what_runs_of_a_task_can_be_ended_and_begins_anew() -> None:
    runs = 0

    async def hangs() -> None:
        nonlocal runs
        runs += 1
        await asyncio.Event().wait()

    async with Supervisor() as supervisor:
        kept = supervisor.spawn("hangs", hangs)
        await asyncio.sleep(1)
        assert kept.attempt is not None
        kept.attempt.end()
        await asyncio.sleep(10)
        assert runs == 2
        assert not kept.task.done()
        kept()
    assert kept.task.cancelled()


@pytest.mark.looptime
async def test_a_task_fails_again_and_again_until_it_has_run_for_a_while_or_is_ended() -> None:
    fails = True

    async def flaky() -> None:
        await asyncio.sleep(1)
        if fails:
            raise OSError("no")
        await asyncio.Event().wait()

    async with Supervisor() as supervisor:
        kept = supervisor.spawn("flaky", flaky)
        await asyncio.sleep(30)
        assert supervisor.failing_for(60) == {}
        await asyncio.sleep(60)
        assert supervisor.failing_for(60) == {"flaky": "OSError: no"}
        fails = False
        await asyncio.sleep(130)
        assert supervisor.failing_for(60) == {}
        fails = True
        another = supervisor.spawn("another", flaky)
        await asyncio.sleep(90)
        assert "another" in supervisor.failing_for(60)
        another()
        await asyncio.sleep(1)
        assert supervisor.failing_for(60) == {}
        assert not kept.task.done()


@pytest.mark.looptime
async def test_a_task_that_fails_now_and_then_does_not_fail_again_and_again() -> None:
    async def rarely() -> None:
        await asyncio.sleep(100)
        raise OSError("no")

    async with Supervisor() as supervisor:
        supervisor.spawn("rarely", rarely)
        for _ in range(20):
            await asyncio.sleep(50)
            assert supervisor.failing_for(60) == {}
