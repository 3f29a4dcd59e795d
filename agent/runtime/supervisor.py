"""Long-running tasks that are started again when they fail."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from agent.base.backoff import Backoff
from agent.base.cancelling import cancel_until_done
from agent.base.metrics import TASK_FAILURES
from agent.runtime.watchdog import Attempt

log = logging.getLogger(__name__)

_STEADY_SECONDS = 60.0
"""A task that ran this long before it failed starts again with the shortest delay."""
_LONGEST_SECONDS = 30.0


@dataclass
class _Failing:
    """A task that fails again and again: since when, and when and why it did last."""

    since: float
    last: float
    why: str


class Kept:
    """A task that is being kept running. Called, it is cancelled until it ends."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        self.attempt: Attempt | None = None
        """The running attempt; None while it waits for the next start."""

    def __call__(self) -> None:
        """Cancel the task until it has ended."""
        cancel_until_done(self.task)


class Supervisor:
    """Runs tasks until the block ends; one that fails is logged, counted and started again with backoff.

    A task that returns is finished. `failures` names the tasks that are waiting to be started again and why.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.failures: dict[str, str] = {}
        self._failing: dict[str, _Failing] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            cancel_until_done(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    def failing_for(self, seconds: float) -> dict[str, str]:
        """The tasks that have failed again and again for so long, and why they did last."""
        now = asyncio.get_running_loop().time()
        return {
            name: found.why
            for name, found in self._failing.items()
            if now - found.since >= seconds and now - found.last < _LONGEST_SECONDS + _STEADY_SECONDS
        }

    def spawn(self, name: str, run: Callable[[], Awaitable[None]]) -> Kept:
        """Start a task; returns the way to cancel it."""
        kept = Kept()
        kept.task = asyncio.create_task(self._keep(name, run, kept), name=f"{self.name}/{name}")
        self._tasks.add(kept.task)
        kept.task.add_done_callback(self._tasks.discard)
        return kept

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]], kept: Kept) -> None:
        try:
            await self._run(name, run, kept)
        finally:
            self.failures.pop(name, None)
            self._failing.pop(name, None)

    async def _run(self, name: str, run: Callable[[], Awaitable[None]], kept: Kept) -> None:
        backoff = Backoff(0.5, _LONGEST_SECONDS)
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                with Attempt() as kept.attempt:
                    await run()
                return
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                if loop.time() - started > _STEADY_SECONDS:
                    backoff.reset()
                    self._failing.pop(name, None)
                self._note(name, why)
                delay = backoff.next()
                log.exception("%s failed; starting it again in %.1f s", name, delay)
            finally:
                kept.attempt = None
            await asyncio.sleep(delay)
            self.failures.pop(name, None)

    def _note(self, name: str, why: str) -> None:
        now = asyncio.get_running_loop().time()
        TASK_FAILURES.labels(name).inc()
        self.failures[name] = why
        known = self._failing.setdefault(name, _Failing(now, now, why))
        known.last, known.why = now, why
