"""A lock whose waiters belong to shares: the share that has held it for the least time so far is next."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable


class FairLock:
    """Shares of equal weight. A share that comes back has no credit for the time in which it did not wait.

    A share that waits behind one with many slow turns therefore waits for one of them: the turn that has begun.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By share, in the order in which shares began to wait."""
        self._used: dict[str, float] = {}
        """Seconds by share, on a scale on which a new share begins at `_level`."""
        self._level = 0.0

    @contextlib.asynccontextmanager
    async def turn(self, share: str) -> AsyncIterator[None]:
        """Hold the lock within the context."""
        await self._acquire(share)
        began = self._clock()
        try:
            yield
        finally:
            self._used[share] = self._level + self._clock() - began
            self._release()

    async def _acquire(self, share: str) -> None:
        if not self._held:
            self._held = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(share, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        """Give the lock to the next waiter that has not been cancelled."""
        while self._waiting:
            share = min(self._waiting, key=self._begins)
            waiting = self._waiting.pop(share)
            turn = waiting.popleft()
            if waiting:
                self._waiting[share] = waiting
            if not turn.done():
                self._level = self._begins(share)
                self._used = {each: used for each, used in self._used.items() if used > self._level}
                turn.set_result(None)
                return
        self._held, self._level = False, 0.0
        self._used.clear()

    def _begins(self, share: str) -> float:
        return max(self._level, self._used.get(share, 0.0))
