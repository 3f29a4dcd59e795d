"""Cache of answers that are valid for some seconds."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST = 1_000


class Memory(Generic[K, V]):
    """Cache of results by key; evicts the oldest of more than a thousand.

    Concurrent callers for a key wait for one computation. A failure is raised to all of them, and not cached.
    """

    def __init__(self, seconds: float | Callable[[V], float]) -> None:
        self._seconds = seconds
        self._known: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._pending: dict[K, asyncio.Future[V]] = {}

    async def get(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        """Return the cached answer, or the result of `find`."""
        while True:
            known = self._known.get(key)
            if known is not None and known[0] > asyncio.get_running_loop().time():
                return known[1]
            pending = self._pending.get(key)
            if pending is None:
                return await self._find(key, find)
            try:
                return await asyncio.shield(pending)
            except asyncio.CancelledError:
                # Either the computing task was cancelled, or this task is, or both.
                task = asyncio.current_task()
                if not pending.cancelled() or (task is not None and task.cancelling()):
                    raise

    async def _find(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        loop = asyncio.get_running_loop()
        pending = self._pending[key] = loop.create_future()
        try:
            value = await find()
        except Exception as error:
            pending.set_exception(error)
            # Mark the exception as retrieved, because there may be no waiter.
            pending.exception()
            raise
        except BaseException:
            pending.cancel()
            raise
        finally:
            del self._pending[key]
        seconds = self._seconds(value) if callable(self._seconds) else self._seconds
        self._known[key] = (loop.time() + seconds, value)
        self._known.move_to_end(key)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        pending.set_result(value)
        return value
