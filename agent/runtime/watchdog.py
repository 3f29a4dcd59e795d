"""What stands still is seen, told with its stack, and ended so that it can be tried again.

Every await on the network ends by itself. This is for those of which that was believed, and was wrong.
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
"""What was told to end and goes on for so long will go on for ever."""
STILL_SECONDS = 300.0
"""A room in which keys wait, and none is done for so long, stands still; unless one takes long and gets on."""


class Overdue(Exception):
    """Work that stood still was ended."""


class Attempt(Progress):
    """Around work of the running task that may be ended without the task; more than once, should it not listen.

    Raises Overdue where it was ended, Interrupted where it was cancelled by nobody who may end this task.
    """

    __slots__ = ("_before", "_belonged", "_ended", "_told", "task")

    task: "asyncio.Task[Any]"

    def __init__(self) -> None:
        super().__init__()
        self._told = 0
        self._ended = 0.0

    def end(self) -> None:
        """Have the task end."""
        now = _now()
        self._ended = self._ended or now
        self.due = now + AGAIN_SECONDS
        self._told += 1
        self.task.cancel()

    @property
    def was_ended(self) -> bool:
        """Whether it has been told to end."""
        return self._told > 0

    def deaf_for(self, now: float) -> float:
        """For how many seconds it has gone on doing nothing since it was told to end; 0: it was not."""
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
    """One that a watchdog sees."""

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
    """Over the work of one room. `waiting` says how many keys wait there."""

    def __init__(self, name: str, waiting: Callable[[], int]) -> None:
        self._name = name
        self._waiting = waiting
        self.running: dict[Attempt, Hashable] = {}
        self._clock = time.monotonic
        """Clock of the event loop, which a thread cannot ask for."""
        self.moved = 0.0
        """When something was done, or there was nothing to do: seconds of the event loop's clock."""

    @property
    def oldest(self) -> float:
        """Age in seconds of the work that began first, 0 if none is under way. Threads may read it."""
        # A copy, for metrics are rendered in a thread. Dicts keep the order in which work began.
        running = list(self.running)
        return self._clock() - running[0].began if running else 0.0

    def over(self, key: Hashable) -> Attempt:
        """To be put around the work on a key."""
        return _Watched(self, key)

    async def run(self) -> None:
        """Look from time to time until cancelled."""
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
        """End what stands still."""
        now = _now()
        if not self._waiting():
            self.moved = now
        for attempt, key in list(self.running.items()):
            if now >= attempt.due:
                told = (self._name, key, now - attempt.began, stack_of(attempt.task))
                log.error("%s: work on %s stands still after %.0f s; it is ended, and tried again later:\n%s", *told)
                attempt.end()

    def trouble(self) -> str:
        """What of this room does not go on although it was ended, in words; empty while all goes on."""
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
    """The watchdogs that this task, and those that it starts from now on, will have running."""
    found: set[Watchdog] = set()
    _roster.set(found)
    return found
