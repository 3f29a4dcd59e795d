"""Memory that is free goes back to the machine: C's allocator keeps what lies between things that are still in use."""

import ctypes
import time
from collections.abc import Callable

PAUSE_SECONDS = 30.0
"""Looking for it takes some milliseconds, during which nothing else happens."""


class Trimmer:
    """Does nothing where the C library knows no such thing (musl, macOS)."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._next = 0.0
        self._trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def trim(self) -> bool:
        """Give back what is free, at most once in a while; whether it was tried."""
        if self._trim is None or self._now() < self._next:
            return False
        self._trim(0)
        self._next = self._now() + PAUSE_SECONDS
        return True


TRIMMER = Trimmer()
"""The process'."""
