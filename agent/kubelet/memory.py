"""Answers that count for some seconds. Pure but for the event loop's time."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST = 1_000


class Memory(Generic[K, V]):
    """What was found out, by key; the oldest of more than a thousand is forgotten.

    Who asks for what is being found out already waits for that answer. A failure is not kept.
    """

    def __init__(self, seconds: float | Callable[[V], float]) -> None:
        self._seconds = seconds
        self._known: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._locks: dict[K, asyncio.Lock] = {}

    async def get(self, key: K, find: Callable[[], Awaitable[V]]) -> V:
        """The remembered answer, or what `find` gives."""
        known = self._fresh(key)
        if known is not None:
            return known[1]
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                known = self._fresh(key)
                if known is None:
                    value = await find()
                    seconds = self._seconds(value) if callable(self._seconds) else self._seconds
                    known = self._known[key] = (asyncio.get_running_loop().time() + seconds, value)
                    self._known.move_to_end(key)
                    if len(self._known) > _MOST:
                        self._known.popitem(last=False)
                return known[1]
        finally:
            if not lock.locked():
                self._locks.pop(key, None)

    def _fresh(self, key: K) -> tuple[float, V] | None:
        known = self._known.get(key)
        return known if known is not None and known[0] > asyncio.get_running_loop().time() else None
