"""Backoff for writes that another writer keeps reverting."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

_AT_ONCE = 2
"""Writes for one cause without a pause: the second one mends what a single writer did by mistake."""
_FIRST, _LONGEST = 1.0, 300.0
"""Seconds."""


class _Written(NamedTuple):
    cause: str
    times: int
    at: float


class RevertedWrites(Generic[K]):
    """Writes by object and cause, such as the version of the object that the write copies.

    A new cause is written at once. The same cause again and again waits 1 s, 2 s and so on, up to 5 min. Objects are
    remembered until `forget`, so callers record only writes that may be repetitions.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[K, _Written] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._written

    def pause(self, key: K, cause: str) -> float:
        """Return the seconds until the object may be written for this cause; 0 for now."""
        known = self._written.get(key)
        if known is None or known.cause != cause or known.times < _AT_ONCE:
            return 0.0
        pause = min(_FIRST * 2.0 ** min(known.times - _AT_ONCE, 32), _LONGEST)
        return max(0.0, known.at + pause - self._clock())

    def record(self, key: K, cause: str) -> None:
        """Record a write. One after twice the longest pause counts as the first again."""
        known, now = self._written.get(key), self._clock()
        repeated = known is not None and known.cause == cause and now - known.at <= 2 * _LONGEST
        self._written[key] = _Written(cause, known.times + 1 if known is not None and repeated else 1, now)

    def forget(self, key: K) -> None:
        """Drop what is known of an object, such as one that has been deleted."""
        self._written.pop(key, None)
