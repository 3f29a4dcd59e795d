"""Garbage collection without long standstills of the event loop.

Python's collector lets no other code run while it examines objects: 100,000 of them take about 50 ms, and 1,000 targets
have millions. So objects that have survived a long collection are frozen, and later ones do not examine them. Reference
counts still free frozen objects, but not cycles of them. Once these may be many, all objects are examined again.
"""

import gc
import time
from collections.abc import Mapping

FREEZE_SECONDS = 0.02
"""CPU seconds of a full collection after which the surviving objects are frozen."""
EXAMINE_OBJECTS = 1_000_000
"""Least number of frozen objects that are examined again. Cycles among as many may take 100 MiB."""
_FULL = 2
"""Generation of a full collection."""


class Freezing:
    """Callback of the garbage collector, for `gc.callbacks`."""

    def __init__(self, seconds: float = FREEZE_SECONDS, examine: int = EXAMINE_OBJECTS) -> None:
        self._seconds = seconds
        self._least = self._most = examine
        """Number of frozen objects that are examined again: twice those that have survived such an examination."""
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
        if gc.get_freeze_count() >= self._most:
            gc.unfreeze()
            self._examines_all = True
            return
        gc.freeze()
        if self._examines_all:
            self._examines_all = False
            self._most = max(self._least, 2 * gc.get_freeze_count())
