"""Detects stalled work, logs its stack, and ends it so that it can be retried.

Every await on the network has a timeout. The watchdog covers awaits whose timeout has failed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from agent.base.cancelling import AGAIN_SECONDS, Interrupted
from agent.base.progress import Progress, begin
from agent.base.stacks import stack_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
DEAF_SECONDS = 60.0
"""Seconds after which work that was ended and still runs counts as stuck."""
STILL_SECONDS = 300.0
"""Seconds without a finished key after which a controller with waiting keys is stalled, unless long work progresses."""


class Overdue(Exception):
    """Work that stood still was ended."""


class Attempt(Progress):
    """Context for work that may be ended without its task; more than once, if the work ignores it.

    Raises Overdue if the work was ended, Interrupted if it was cancelled by code that may not end this task.
    """

    __slots__ = ("_before", "_belonged", "_ended", "_told", "task")

    task: "asyncio.Task[Any]"

    def __init__(self) -> None:
        super().__init__()
        self._told = 0
        self._ended = 0.0

    def end(self) -> None:
        """End the work."""
        now = _now()
        self._ended = self._ended or now
        self.due = now + AGAIN_SECONDS
        self._told += 1
        self.task.cancel()

    @property
    def was_ended(self) -> bool:
        """Return whether the work was ended."""
        return self._told > 0

    def deaf_for(self, now: float) -> float:
        """Return the seconds without progress since the work was ended; 0 if it was not."""
        return now - max(self._ended, self.moved) if self._told else 0.0

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self._before = task.cancelling()
        self._belonged = begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begin(self._belonged)
        for _ in range(self._told):
            self.task.uncancel()
        if isinstance(error, asyncio.CancelledError) and self.task.cancelling() <= self._before:
            if self._told:
                raise Overdue("it stood still") from error
            raise Interrupted("what it waited for was cancelled") from error


class _Watched(Attempt):
    """An attempt that a watchdog observes."""

    __slots__ = ("_key", "_watchdog")

    def __init__(self, watchdog: "Watchdog", key: Hashable) -> None:
        super().__init__()
        self._watchdog = watchdog
        self._key = key

    def __enter__(self) -> Self:
        self._watchdog.running[self] = self._key
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._watchdog.running[self]
        if not self._told:
            self._watchdog.moved = _now()
        super().__exit__(kind, error, trace)


class Watchdog:
    """Watchdog of one controller. `waiting` returns the number of its waiting keys."""

    def __init__(self, name: str, waiting: Callable[[], int]) -> None:
        self._name = name
        self._waiting = waiting
        self.running: dict[Attempt, Hashable] = {}
        self._clock = time.monotonic
        """Clock of the event loop, which a thread cannot ask for."""
        self.moved = 0.0
        """Time of the last progress, or without waiting keys: seconds of the event loop's clock."""

    @property
    def oldest(self) -> float:
        """Age in seconds of the oldest running work, 0 if none is running. Threads may read it."""
        # Copy the dict, because metrics are rendered in a thread. Dicts keep insertion order: the first work is the
        # oldest.
        running = list(self.running)
        return self._clock() - running[0].began if running else 0.0

    def over(self, key: Hashable) -> Attempt:
        """To be put around the work on a key."""
        return _Watched(self, key)

    async def run(self) -> None:
        """Check periodically until cancelled."""
        self._clock = asyncio.get_running_loop().time
        self.moved = _now()
        roster = _roster.get()
        if roster is not None:
            roster.add(self)
        try:
            while True:
                lost = await late(LOOK_SECONDS)
                for attempt in self.running:
                    attempt.due += lost
                self.look()
        finally:
            if roster is not None:
                roster.discard(self)

    def look(self) -> None:
        """End stalled work."""
        now = _now()
        if not self._waiting():
            self.moved = now
        for attempt, key in list(self.running.items()):
            if now >= attempt.due:
                told = (self._name, key, now - attempt.began, stack_of(attempt.task))
                log.error("%s: work on %s stands still after %.0f s; it is ended, and tried again later:\n%s", *told)
                attempt.end()

    def trouble(self) -> str:
        """Return the problem of a controller that is still stuck after its work was ended; empty if there is none."""
        now = _now()
        deaf = [key for attempt, key in self.running.items() if attempt.deaf_for(now) > DEAF_SECONDS]
        if deaf:
            return f"{self._name}: work on {deaf[0]} cannot be ended"
        at_length = any(now - each.began > STILL_SECONDS and not each.was_ended for each in self.running)
        if self._waiting() and now - self.moved > STILL_SECONDS and not at_length:
            return f"{self._name}: {self._waiting()} keys wait, and none has been done for {now - self.moved:.0f} s"
        return ""


async def late(seconds: float) -> float:
    """Sleep; returns by how many seconds that was too long, 0 for few: then the process itself stood still."""
    due = _now() + seconds
    await asyncio.sleep(seconds)
    lost = _now() - due
    return lost if lost > seconds else 0.0


def _now() -> float:
    return asyncio.get_running_loop().time()


_roster: ContextVar[set[Watchdog] | None] = ContextVar("roster", default=None)


def roster() -> set[Watchdog]:
    """Return the set that collects running watchdogs of this task, and of tasks that it starts from now on."""
    found: set[Watchdog] = set()
    _roster.set(found)
    return found
