"""Cooperative yielding for CPU-bound coroutines; work that cannot yield runs in a thread: `agent.base.offloop`."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE = 0.01
"""Seconds of work after which other tasks run; also the longest extra delay from one more task."""
_MOST = 64


class Turns:
    """Time slices of an event loop. During a slice no task waits; after it, tasks run first come, first served."""

    def __init__(self) -> None:
        self._began = 0.0
        """Time of the first turn in this pass of the loop; 0 before it."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._at_once = 1
        """Number of waiting tasks that are woken together: as many as fill a slice."""
        self._granted = 0.0

    async def take(self) -> None:
        """Wait for the next turn."""
        if not self._waiting and not self._used_up():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._granted = time.monotonic()
            asyncio.get_running_loop().call_soon(self._grant)
        await turn

    def _used_up(self) -> bool:
        if not self._began:
            self._began = time.monotonic()
            asyncio.get_running_loop().call_soon(self._renew)
            return False
        return time.monotonic() - self._began > SLICE

    def _renew(self) -> None:
        self._began = 0.0

    def _grant(self) -> None:
        now = time.monotonic()
        if now - self._granted > SLICE:
            self._at_once = max(1, self._at_once // 2)
        elif now - self._granted < SLICE / 2:
            self._at_once = min(_MOST, self._at_once * 2)
        self._granted = now
        for _ in range(min(self._at_once, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._grant)


_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]" = WeakKeyDictionary()


async def take_turn() -> None:
    """Wait for a turn on the running event loop; returns at once until the current slice is used up."""
    loop = asyncio.get_running_loop()
    turns = _of_loops.get(loop)
    if turns is None:
        turns = _of_loops[loop] = Turns()
    await turns.take()


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Iterate over many items, and let other tasks run between two of them once a time slice is used up.

    Other tasks may change what `items` is made of: pass a copy, such as a tuple.
    """
    for item in items:
        await take_turn()
        yield item


class Share:
    """Work for another cluster, in turns, and at most a `portion` of the time."""

    def __init__(self, portion: float = 1.0) -> None:
        self._portion = portion
        self._since = time.monotonic()
        self._worked = 0.0

    async def worked(self, seconds: float) -> None:
        """Some more of it has been done: wait if it is too much."""
        self._worked += seconds
        if self._worked < SLICE:
            return
        due = self._since + self._worked / self._portion
        pause = due - time.monotonic()
        self._since, self._worked = max(due, time.monotonic()), 0.0
        if pause > 0 and self._portion < 1:
            await asyncio.sleep(pause)
        else:
            await take_turn()
