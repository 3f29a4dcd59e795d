import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.workqueue import WorkQueue
from tests.waiting import until

steps = st.lists(
    st.tuples(st.sampled_from(["add", "later", "retry", "get", "done", "tick"]), st.integers(0, 3)), max_size=60
)


@given(steps)
def test_no_key_is_lost_or_worked_on_by_two_at_once_whatever_happens(script: list[tuple[str, int]]) -> None:
    asyncio.run(play(script))


async def play(script: list[tuple[str, int]]) -> None:
    queue: WorkQueue[int] = WorkQueue(first_delay=1e-6, longest_delay=1e-5)
    owed: set[int] = set()
    working: set[int] = set()

    async def take() -> None:
        key = await queue.get()
        assert key not in working
        assert key in owed
        working.add(key)
        owed.discard(key)

    for step, key in script:
        match step:
            case "add":
                queue.add(key)
                owed.add(key)
            case "later":
                queue.add_after(key, 1e-6)
                owed.add(key)
            case "retry":
                queue.retry(key)
                owed.add(key)
            case "get" if queue.statistics().waiting:
                await take()
            case "done" if key in working:
                working.discard(key)
                queue.done(key)
            case "tick":
                await asyncio.sleep(0)
    for key in list(working):
        working.discard(key)
        queue.done(key)
    while owed:
        async with asyncio.timeout(5):
            await take()
        queue.done(key := working.pop())
        assert key not in working
    await asyncio.sleep(1e-4)
    assert queue.statistics()[:3] == (0, 0, 0)


async def test_keys_come_in_the_order_of_their_first_arrival_and_wait_only_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abcab":
        queue.add(key)
    assert queue.statistics().waiting == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_added_while_it_is_worked_on_comes_again_after_the_work_and_not_before() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    assert queue.statistics() == (0, 1, 0, 0)
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.statistics() == (0, 0, 0, 0)


@pytest.mark.looptime
async def test_a_delay_is_kept_to(looptime: float) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 300)
    await queue.get()
    assert looptime == 300


@pytest.mark.looptime
async def test_of_two_delays_the_earlier_counts_whichever_was_first(looptime: float) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 300)
    queue.add_after("a", 20)
    queue.add_after("a", 100)
    await queue.get()
    queue.done("a")
    assert looptime == 20
    await asyncio.sleep(1000)
    assert queue.statistics() == (0, 0, 0, 0)


@pytest.mark.looptime
async def test_a_key_that_is_needed_now_does_not_wait_for_its_delay(looptime: float) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 300)
    queue.add("a")
    await queue.get()
    queue.done("a")
    assert looptime == 0
    await asyncio.sleep(1000)
    assert queue.statistics() == (0, 0, 0, 0)


@pytest.mark.looptime
async def test_a_delay_that_ends_during_the_work_brings_the_key_back_after_it(looptime: float) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add_after("a", 10)
    await asyncio.sleep(50)
    assert queue.statistics().waiting == 0
    queue.done("a")
    assert await queue.get() == "a"
    assert looptime == 50


@pytest.mark.looptime
async def test_retries_wait_longer_each_time_until_the_key_goes_well(looptime: float) -> None:
    queue: WorkQueue[str] = WorkQueue(first_delay=1, longest_delay=60)
    delays = []
    for _ in range(9):
        delays.append(queue.retry("a"))
        started = looptime + 0
        await queue.get()
        assert looptime - started == pytest.approx(delays[-1], abs=0.01)
        queue.done("a")
    assert all(0.5 * min(60, 2**n) <= delay <= min(60, 2**n) for n, delay in enumerate(delays))
    queue.forget("a")
    assert queue.statistics().failing == 0
    assert queue.retry("a") <= 1


async def test_many_workers_share_the_keys_and_each_addition_is_followed_by_work() -> None:
    queue: WorkQueue[int] = WorkQueue()
    wanted: Counter[int] = Counter()
    seen: dict[int, int] = {}
    busy: set[int] = set()

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            seen[key] = wanted[key]
            await asyncio.sleep(0)
            busy.discard(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(8)]
    for number in range(3000):
        wanted[number % 17] += 1
        queue.add(number % 17)
        if number % 5 == 0:
            await asyncio.sleep(0)
    await until(lambda: queue.statistics()[:2] == (0, 0))
    for worker in workers:
        worker.cancel()
    outcomes = await asyncio.gather(*workers, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    assert seen == wanted


async def test_a_worker_that_is_cancelled_while_it_waits_takes_no_key_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiter = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiter.cancel()
    outcome = (await asyncio.gather(waiter, return_exceptions=True))[0]
    if not isinstance(outcome, str):
        assert await asyncio.wait_for(queue.get(), 5) == "a"


async def test_the_smallest_by_order_comes_first_and_equals_in_the_order_of_arrival() -> None:
    queue: WorkQueue[str] = WorkQueue(order=lambda key: -int(key[0]))
    for key in ("1a", "2a", "1b", "3a", "2b", "1a"):
        queue.add(key)
    assert [await queue.get() for _ in range(5)] == ["3a", "2a", "2b", "1a", "1b"]


async def test_a_key_of_a_worker_that_is_cancelled_as_it_is_woken_goes_to_the_next() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    async with asyncio.timeout(5):
        assert await second == "a"
    assert first.cancelled()


async def test_of_many_workers_each_takes_one_of_many_keys() -> None:
    queue: WorkQueue[int] = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(50)]
    await asyncio.sleep(0)
    for worker in workers[::2]:
        worker.cancel()
    for key in range(25):
        queue.add(key)
    async with asyncio.timeout(5):
        found = await asyncio.gather(*workers, return_exceptions=True)
    assert [key for key in found if isinstance(key, int)] == list(range(25))


async def test_keys_of_a_lane_that_is_full_hold_up_none_of_another() -> None:
    queue: WorkQueue[str] = WorkQueue(lane=lambda key: key[0], lane_width=2)
    for key in ("a1", "a2", "a3", "a4", "b1"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a1", "a2", "b1"]
    assert queue.statistics()[:2] == (2, 3)
    queue.done("b1")
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add("a5")
    queue.done("a2")
    assert await waiting == "a3"
    queue.done("a1")
    queue.done("a3")
    assert [await queue.get() for _ in range(2)] == ["a4", "a5"]
    for key in ("a4", "a5"):
        queue.done(key)
    assert queue.statistics() == (0, 0, 0, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "get", "done"]), st.integers(0, 11)),
        max_size=120,
    )
)
def test_a_lane_is_never_wider_than_it_is_and_nothing_stays_behind(script: list[tuple[str, int]]) -> None:
    async def run() -> None:
        queue: WorkQueue[int] = WorkQueue(lane=lambda key: key % 4 or None, lane_width=2)
        working: list[int] = []
        takers: list[asyncio.Task[int]] = []

        async def settle() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in [task for task in takers if task.done()]:
                takers.remove(task)
                working.append(task.result())
            lanes = Counter(key % 4 for key in working)
            assert all(lanes[lane] <= 2 for lane in (1, 2, 3))

        for step, key in script:
            match step:
                case "add":
                    queue.add(key)
                case "get":
                    takers.append(asyncio.ensure_future(queue.get()))
                case "done" if key in working:
                    working.remove(key)
                    queue.done(key)
            await settle()
        takers += [asyncio.ensure_future(queue.get()) for _ in range(12)]
        await settle()
        while working:
            queue.done(working.pop())
            await settle()
        assert queue.statistics()[:2] == (0, 0)
        for task in takers:
            task.cancel()
        await asyncio.gather(*takers, return_exceptions=True)

    asyncio.run(run())
