import asyncio
import gc
import itertools
import time
import weakref
from collections import Counter
from typing import ClassVar

import pytest
from aiohttp import web

from agent.base.cancelling import AGAIN_SECONDS
from agent.base.metrics import REGISTRY
from agent.kube.config import Connection
from agent.kube.errors import Conflict, Invalid, KubeError, Unreachable
from agent.kube.session import Session
from agent.runtime.controller import Controller
from tests.kube.test_session import serving
from tests.waiting import until


class SomeController(Controller[str]):
    """Controller that plays the script of a key, one outcome per reconciliation."""

    name: ClassVar[str] = "test"

    def __init__(self) -> None:
        super().__init__()
        self.script: dict[str, list[Exception | float | None]] = {}
        self.times: dict[str, list[float]] = {}
        self.busy: Counter[str] = Counter()

    async def reconcile(self, key: str) -> float | None:
        self.times.setdefault(key, []).append(asyncio.get_running_loop().time())
        self.busy[key] += 1
        assert self.busy[key] == 1
        await asyncio.sleep(0)
        self.busy[key] -= 1
        outcomes = self.script.get(key) or [None]
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def pauses(self, key: str) -> list[float]:
        times = self.times[key]
        return [after - before for before, after in itertools.pairwise(times)]


async def run_for(controller: SomeController, seconds: float) -> None:
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(seconds)
    await cancel(task)


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.looptime
async def test_a_key_comes_back_when_its_reconciliation_says_so() -> None:
    controller = SomeController()
    controller.script["a"] = [30.0, 5.0, None]
    controller.queue.add("a")
    await run_for(controller, 1000)
    assert controller.pauses("a") == pytest.approx([30, 5], abs=0.01)


@pytest.mark.looptime
@pytest.mark.parametrize(
    "error",
    [Unreachable("no answer"), KubeError("other"), Conflict(409, "Conflict", ""), RuntimeError("a bug of ours")],
    ids=["no answer", "another error", "a conflict", "a bug"],
)
async def test_a_failure_comes_back_after_growing_delays_and_success_forgets_it(error: Exception) -> None:
    controller = SomeController()
    controller.script["a"] = [error] * 6 + [100.0, error]
    controller.queue.add("a")
    await run_for(controller, 1000)
    pauses = controller.pauses("a")
    assert all(0.025 * 2**n <= pause <= 0.05 * 2**n + 0.001 for n, pause in enumerate(pauses[:6]))
    assert pauses[6] == pytest.approx(100, abs=0.01)
    assert pauses[7] < 0.06


@pytest.mark.looptime
async def test_what_the_server_finds_invalid_is_not_sent_again_soon() -> None:
    controller = SomeController()
    controller.script["a"] = [Invalid(422, "Invalid", "no")]
    controller.queue.add("a")
    await run_for(controller, 1000)
    assert controller.pauses("a") == pytest.approx([300], abs=0.01)


@pytest.mark.looptime
async def test_one_key_that_fails_holds_back_no_other() -> None:
    controller = SomeController()
    controller.script["bad"] = [RuntimeError("broken")] * 1000
    for key in ("bad", *map(str, range(100))):
        controller.queue.add(key)
    await run_for(controller, 1)
    assert all(str(number) in controller.times for number in range(100))


async def test_a_controller_that_is_stopped_in_the_middle_can_run_again() -> None:
    class Slow(SomeController):
        async def reconcile(self, key: str) -> float | None:
            self.times.setdefault(key, []).append(0)
            if len(self.times[key]) == 1:
                await asyncio.Event().wait()
            return None

    controller = Slow()
    controller.queue.add("a")
    await run_for(controller, 0.01)
    controller.queue.add("a")
    await run_for(controller, 0.01)
    assert len(controller.times["a"]) == 2
    assert controller.queue.statistics() == (0, 0, 0, 0)


class Busy(SomeController):
    """Controller that blocks for a millisecond on each key and never awaits."""

    workers: ClassVar[int] = 8

    def __init__(self, done: list[str]) -> None:
        super().__init__()
        self.done = done

    async def reconcile(self, key: str) -> float | None:
        end = time.monotonic() + 0.001
        while time.monotonic() < end:
            pass
        self.done.append(key)
        return None


async def test_controllers_that_never_wait_hold_up_neither_requests_nor_each_other() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text="{}")

    done: list[str] = []
    controllers = [Busy(done) for _ in range(3)]
    for controller in controllers[:2]:
        for number in range(300):
            controller.queue.add(str(number))
    async with serving(answer) as url, Session(Connection(url)) as session:
        await session.request("GET", "/")
        running = [asyncio.create_task(controller.run()) for controller in controllers]
        await until(lambda: len(done) > 20)
        before = len(done)
        controllers[2].queue.add("late")
        # As many keys as fit into one lease renewal.
        for _ in range(2):
            await session.request("GET", "/")
        assert len(done) < 300
        await until(lambda: len(done) == 601)
        # At most the keys in progress, and the keys queued then, come first. Counts keys: the machine is shared.
        assert done.index("late") - before <= 3 * len(controllers[:2]) * Busy.workers
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Deaf(SomeController):
    """Controller that loses a cancellation in its own error handling, as network code may."""

    async def reconcile(self, key: str) -> float | None:
        self.times.setdefault(key, []).append(asyncio.get_running_loop().time())
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if len(self.times[key]) == 1:
                raise Unreachable("the connection was closed") from None
            raise
        return None


@pytest.mark.looptime
async def test_a_controller_whose_work_loses_the_cancellation_ends_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    controller = Deaf()
    controller.queue.add("a")
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    task.cancel()
    _, pending = await asyncio.wait([task], timeout=60)
    assert not pending
    assert task.cancelled()
    assert len(controller.times["a"]) == 2
    assert "test worker was cancelled and goes on" in caplog.text


class Lanes(Controller[tuple[str, int]]):
    """Controller with a lane that never receives an answer."""

    name: ClassVar[str] = "lanes"
    workers = 8
    lane_width = 4

    def __init__(self) -> None:
        super().__init__()
        self.waiting: set[int] = set()
        self.done: set[tuple[str, int]] = set()

    def lane(self, key: tuple[str, int]) -> str:
        return key[0]

    async def reconcile(self, key: tuple[str, int]) -> float | None:
        if key[0] == "dark":
            self.waiting.add(key[1])
            await asyncio.Event().wait()
        self.done.add(key)
        return None


@pytest.mark.looptime
async def test_a_lane_in_which_nothing_ends_holds_up_no_other() -> None:
    controller = Lanes()
    keys = [(lane, number) for number in range(20) for lane in ("dark", "light")]
    for key in keys:
        controller.queue.add(key)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    assert controller.done == {key for key in keys if key[0] == "light"}
    assert controller.waiting == set(range(4))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.looptime
async def test_a_controller_that_has_ended_is_let_go_and_its_gauges_show_nothing() -> None:
    """A replica that no longer leads would otherwise keep all stores of the controller."""
    controller = SomeController()
    controller.queue.add("a")
    assert REGISTRY.get_sample_value("flotilla_queue_depth", {"controller": "test"}) != 1
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(0.01)
    await cancel(running)
    controller.queue.add("b")
    assert REGISTRY.get_sample_value("flotilla_queue_depth", {"controller": "test"}) == 0
    reference = weakref.ref(controller)
    del controller, running
    # A cancelled worker is awaited for this long.
    await asyncio.sleep(2 * AGAIN_SECONDS)
    gc.collect()
    assert reference() is None
