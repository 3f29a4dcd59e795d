"""Long-running tasks that are started again when they fail."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from agent.base.backoff import Backoff
from agent.base.cancelling import cancel_until_done
from agent.base.metrics import TASK_FAILURES

log = logging.getLogger(__name__)

_STEADY_SECONDS = 60.0
"""A task that ran this long before it failed starts again with the shortest delay."""


class Supervisor:
    """Runs tasks until the block ends; one that fails is logged, counted and started again with backoff.

    A task that returns is finished. `failures` names the tasks that are waiting to be started again and why.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.failures: dict[str, str] = {}
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

    def spawn(self, name: str, run: Callable[[], Awaitable[None]]) -> Callable[[], object]:
        """Start a task; returns the way to cancel it."""
        task = asyncio.create_task(self._keep(name, run), name=f"{self.name}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return functools.partial(cancel_until_done, task)

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(0.5, 30.0)
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await run()
                return
            except Exception as error:
                TASK_FAILURES.labels(name).inc()
                self.failures[name] = f"{type(error).__name__}: {error}"
                if loop.time() - started > _STEADY_SECONDS:
                    backoff.reset()
                delay = backoff.next()
                log.exception("%s failed; starting it again in %.1f s", name, delay)
            await asyncio.sleep(delay)
            self.failures.pop(name, None)
