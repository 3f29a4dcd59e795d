"""Garbage collection without long standstills of the event loop.

Python's collector lets no other code run while it examines objects: 100,000 of them take about 50 ms, and 1,000 targets
have millions. So objects that have survived a collection are frozen, and later ones do not examine them. Reference
counts still free frozen objects, but not cycles of them. Once the process has doubled, or needs
half of its memory limit, all objects are examined.
"""

import gc
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

FREEZE_SECONDS = 0.005
"""CPU seconds of a full collection after which the surviving objects are frozen."""
EXAMINE_BYTES = 512 << 20
"""Least resident memory at which frozen objects are examined again."""
_GROWTH, _LEAST_GROWTH = 2, 1.1
"""Factors of resident memory from one examination to the next: usual, and least near the memory limit."""
_SHARE = 0.7
"""Fraction of the memory limit at which objects are examined again, whatever the growth."""
_FULL = 2
"""Generation of a full collection."""


def resident() -> int:
    """Return the resident memory of this process in bytes; 0 on a system without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def limit(file: Path = Path("/sys/fs/cgroup/memory.max")) -> float:
    """Return the memory limit of the container in bytes; infinity without one."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return math.inf


class Freezing:
    """Callback of the garbage collector, for `gc.callbacks`."""

    def __init__(
        self,
        seconds: float = FREEZE_SECONDS,
        examine: int = EXAMINE_BYTES,
        resident: Callable[[], int] = resident,
        limit: Callable[[], float] = limit,
    ) -> None:
        self._seconds = seconds
        self._resident = resident
        self._limit = limit()
        self._examine: float = min(examine, self._limit / 2)
        """Resident memory in bytes at which frozen objects are examined again."""
        self._examines_all = False
        self._began = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Follow the beginning and the end of a collection."""
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._began = time.thread_time()
        elif time.thread_time() - self._began >= self._seconds:
            self._settle()

    def _settle(self) -> None:
        memory = self._resident()
        if self._examines_all:
            self._examines_all = False
            grown = min(_GROWTH * memory, _SHARE * self._limit)
            self._examine = max(self._examine, grown, _LEAST_GROWTH * memory)
        elif memory >= self._examine:
            # The next full collection examines all objects.
            gc.unfreeze()
            self._examines_all = True
            return
        gc.freeze()
