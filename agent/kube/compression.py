"""Packs objects that have not changed for a while: most objects of a cluster hardly ever change."""

import asyncio
import ctypes
import time
from collections import OrderedDict
from collections.abc import Callable

from agent.kube.store import Key, Object, Store

PACK_SECONDS = 5.0
_PACKED_AT_ONCE = 50
_PACK_PAUSE_SECONDS = 0.1
"""A list of many objects is packed bit by bit, with a tenth of the time at most."""
_HUGE = 1024 * 1024
"""Bytes of an object that is packed at once."""
_LIKE_MOST = 32 * 1024
"""Bytes of an object: further apart, deflate finds nothing in common (RFC 1951, section 2)."""
_UNLIKE = 0.2
_LIKE_LEAST = 64
"""Objects that must share a dictionary before another one may replace it, so that its size is negligible."""
TRIM_PAUSE_SECONDS = 30.0
"""Looking for free memory takes some milliseconds, during which nothing else happens."""


class Trimmer:
    """Returns free memory to the machine; C's allocator keeps free blocks that lie between used ones.

    Does nothing if the C library has no `malloc_trim` (musl, macOS).
    """

    def __init__(self, trim: Callable[[int], int] | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        """:param trim: gives back, C's unless another is given"""
        self._now = now
        self._next = 0.0
        self._due = 0.0
        """Time until which trimming was last delayed."""
        self._trim: Callable[[int], int] | None = trim or getattr(ctypes.CDLL(None), "malloc_trim", None)

    def trim(self) -> None:
        """Return free memory now, or when the pause since the last time has passed."""
        wait = self._next - self._now()
        if wait <= 0:
            self._give_back()
        elif self._due < self._next:
            self._due = self._next
            asyncio.get_running_loop().call_later(wait, self._give_back)

    def _give_back(self) -> None:
        self._next = self._now() + TRIM_PAUSE_SECONDS
        if self._trim is not None:
            self._trim(0)


TRIMMER = Trimmer()
"""The process'."""


class Packer:
    """Packs the objects of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fresh: OrderedDict[Key, float] = OrderedDict()
        """Large objects that are not packed, and when they changed last."""
        self._timer: asyncio.TimerHandle | None = None
        self._like = b""
        """The object that newly packed objects use as a dictionary."""
        self._packed = 0
        """Number of objects packed with it."""

    def note(self, obj: Object) -> None:
        """Schedule packing of an object that was put into the store."""
        if not obj.is_large:
            return
        if len(obj.raw) > _HUGE:
            obj.pack()
            return
        loop = asyncio.get_running_loop()
        self._fresh[obj.key] = loop.time()
        self._fresh.move_to_end(obj.key)
        if self._timer is None:
            self._timer = loop.call_later(PACK_SECONDS, self._pack)

    def forget(self, key: Key) -> None:
        """Cancel packing of an object that was removed from the store."""
        self._fresh.pop(key, None)

    def _pack(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_PACKED_AT_ONCE):
            key, since = next(iter(self._fresh.items()), (None, 0.0))
            if key is None or since + PACK_SECONDS > loop.time():
                break
            del self._fresh[key]
            obj = self._store.get(key)
            if obj is not None:
                self._pack_one(obj)
        self._timer = None
        if self._fresh:
            delay = next(iter(self._fresh.values())) + PACK_SECONDS - loop.time()
            self._timer = loop.call_later(max(_PACK_PAUSE_SECONDS, delay), self._pack)
        else:
            TRIMMER.trim()

    def _pack_one(self, obj: Object) -> None:
        raw = obj.raw
        if len(raw) > _LIKE_MOST:
            obj.pack()
            return
        part = obj.pack(self._like)
        self._packed += 1
        if not self._like or (part > _UNLIKE and self._packed >= _LIKE_LEAST):
            self._like, self._packed = raw, 0
