"""The watchdog cancels and retries stuck work, and reports work that it may not cancel."""

import asyncio
from typing import ClassVar

import pytest

from agent.base.metrics import OLDEST_RECONCILE, RECONCILES
from agent.base.progress import SLACK_SECONDS, expect, progressed
from agent.runtime.controller import Controller
from agent.runtime.watchdog import DEAF_SECONDS, STILL_SECONDS, roster
from tests.runtime.test_controller import run_for


class SomeController(Controller[str]):
    """Controller that carries out the command in the key."""

    name: ClassVar[str] = "watched"
    workers = 2

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[str, float]] = []
        self.ended: list[str] = []

    async def reconcile(self, key: str) -> float | None:
        self.begun.append((key, asyncio.get_running_loop().time()))
        kind = key.partition(" ")[0]
        tries = sum(begun == key for begun, _ in self.begun)
        if kind == "hangs" or (kind == "once" and tries == 1):
            await asyncio.Event().wait()
        elif kind == "deaf":
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if "let it end" in self.ended:
                        raise
        elif kind == "works":
            for _ in range(20):
                await asyncio.sleep(SLACK_SECONDS - 10)
                progressed()
        elif kind == "expects":
            expect(1000)
            await asyncio.sleep(1000)
        elif kind == "cancelled":
            shared = asyncio.get_running_loop().create_future()
            shared.cancel()
            await shared
        self.ended.append(key)
        return None

    def times(self, key: str) -> list[float]:
        return [at for begun, at in self.begun if begun == key]


def counted(outcome: str) -> float:
    return RECONCILES.labels("watched", outcome)._value.get()


@pytest.mark.looptime
async def test_work_that_stands_still_is_ended_with_its_stack_told_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller, before = SomeController(), counted("overdue")
    controller.queue.add("once a")
    await run_for(controller, SLACK_SECONDS + 30)
    assert controller.ended == ["once a"]
    first, second = controller.times("once a")
    assert SLACK_SECONDS <= second - first < SLACK_SECONDS + 10
    assert counted("overdue") == before + 1
    assert "watched: work on once a stands still" in caplog.text
    assert " in reconcile\n" in caplog.text


@pytest.mark.looptime
async def test_what_always_stands_still_is_tried_less_and_less_often_and_leaves_the_workers_to_others() -> None:
    controller = SomeController()
    for key in ("hangs a", "hangs b"):
        controller.queue.add(key)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    controller.queue.add("fine")
    await asyncio.sleep(2 * SLACK_SECONDS)
    assert controller.ended == ["fine"]
    assert len(controller.times("hangs a")) >= 2
    await asyncio.sleep(3600)
    assert len(controller.times("hangs a")) < 3600 / SLACK_SECONDS
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.looptime
@pytest.mark.parametrize("key", ["works", "expects"])
async def test_work_that_gets_on_or_has_said_that_it_takes_long_is_left_alone(key: str) -> None:
    controller = SomeController()
    controller.queue.add(key)
    await run_for(controller, 1100)
    assert controller.ended == [key]
    assert len(controller.begun) == 1


@pytest.mark.looptime
async def test_a_worker_outlives_a_cancellation_that_was_meant_for_somebody_else() -> None:
    controller = SomeController()
    for number in range(10):
        controller.queue.add(f"cancelled {number}")
    controller.queue.add("fine")
    await run_for(controller, 1)
    assert controller.ended == ["fine"]
    assert len({key for key, _ in controller.begun}) == 11


@pytest.mark.looptime
async def test_what_does_not_end_is_told_again_and_again_and_is_trouble() -> None:
    controllers = roster()
    controller = SomeController()
    controller.queue.add("deaf")
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(SLACK_SECONDS + 30)
    (watchdog,) = controllers
    assert watchdog.trouble() == ""
    await asyncio.sleep(DEAF_SECONDS)
    assert watchdog.trouble() == "watched: work on deaf cannot be ended"
    (oldest,) = (sample for sample in OLDEST_RECONCILE.labels("watched").collect()[0].samples)
    assert oldest.value > SLACK_SECONDS + DEAF_SECONDS
    controller.ended.append("let it end")
    await asyncio.sleep(30)
    assert watchdog.trouble() == ""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert controllers == set()


@pytest.mark.looptime
async def test_a_controller_in_which_keys_wait_and_none_is_done_stands_still() -> None:
    controllers = roster()
    controller = SomeController()
    for number in range(20):
        controller.queue.add(f"hangs {number}")
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(STILL_SECONDS - 30)
    (watchdog,) = controllers
    assert watchdog.trouble() == ""
    await asyncio.sleep(60)
    assert "keys wait, and none has been done for" in watchdog.trouble()
    controller.queue.add("fine")
    await asyncio.sleep(1500)
    assert "fine" in controller.ended
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.looptime
async def test_what_stood_still_with_the_whole_process_is_given_its_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stood_still = 0.0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("agent.runtime.watchdog._now", lambda: loop.time() + stood_still)
    controller = SomeController()
    controller.queue.add("once a")
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    stood_still = 100.0
    await asyncio.sleep(SLACK_SECONDS - 10)
    assert len(controller.begun) == 1
    await asyncio.sleep(30)
    assert len(controller.begun) == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.looptime
async def test_a_controller_that_is_stopped_ends_at_once_whatever_it_was_told_before() -> None:
    controller = SomeController()
    controller.queue.add("once a")
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(SLACK_SECONDS + 5.01)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=1)
    assert done
    assert task.cancelled()
