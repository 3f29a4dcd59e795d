"""Backoff for writes that another writer keeps reverting."""

import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

_AT_ONCE = 2
"""Number of writes for one cause without a pause: the second one corrects a single mistake of another writer."""
_LASTING = 60.0
"""Seconds. A write that has lasted for longer, and for longer than two pauses, was not reverted at once."""


class _Written(NamedTuple):
    cause: str
    times: int
    at: float


class RevertedWrites(Generic[K]):
    """Writes by object and cause, such as the version of the object that the write copies.

    The first writes for a cause have no pause. Each further one for the same cause waits twice as long as the one
    before. An object stays in memory until `forget`, so callers record only writes that may be repetitions.

    :param first: shortest pause in seconds
    :param longest: longest pause in seconds
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, first: float = 1.0, longest: float = 300.0
    ) -> None:
        self._clock = clock
        self._first, self._longest = first, longest
        self._written: dict[K, _Written] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._written

    def pause(self, key: K, cause: str) -> float:
        """Return the seconds until the object may be written for this cause; 0 if it may be written now."""
        known = self._written.get(key)
        if known is None or known.cause != cause:
            return 0.0
        return max(0.0, known.at + self._after(known) - self._clock())

    def record(self, key: K, cause: str) -> None:
        """Record a write. If the last one was not reverted at once, this one counts as the first again."""
        known, now = self._written.get(key), self._clock()
        lasted = known is None or known.cause != cause or now - known.at >= max(_LASTING, 2 * self._after(known))
        self._written[key] = _Written(cause, 1 if known is None or lasted else known.times + 1, now)

    def _after(self, known: _Written) -> float:
        """Return the seconds between a write and the next one for the same cause."""
        if known.times < _AT_ONCE:
            return 0.0
        return min(self._first * 2.0 ** min(known.times - _AT_ONCE, 32), self._longest)

    def forget(self, key: K) -> None:
        """Drop the records of an object, such as a deleted one."""
        self._written.pop(key, None)
