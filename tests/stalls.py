"""Watchdog for tests: the longest time that the event loop stood still, and the memory that the process took meanwhile.

Stalls are measured in CPU time of the process, not in wall-clock time. Test machines run other programs: there a loop
that computes nothing wakes up late as well, and no code is to blame. The CPU time of the whole process counts, and not
that of the loop's thread alone, because a thread that holds the interpreter lock stops the loop, too. A core that is
shared with other programs takes more CPU time for the same work, up to twice: the limit grows by the pace of the core,
which is measured before and after the code under test, and right after each stall beyond the limit. Garbage
collections examine only objects made meanwhile: thousands of tests leave far more objects than an agent has.
"""

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.costs import pace

STALL_SECONDS = 0.25
MEMORY_BYTES = 256 << 20

_TICK_SECONDS = 0.005
_SAMPLE_SECONDS = 0.02
_LINES = 8
"""Innermost frames of a stack that are shown."""
_SHOWN = 4
_KIB = 1024


class StallWatch:
    """Asynchronous context manager around the code under test, entered on the event loop that is watched."""

    def __init__(self) -> None:
        self.longest = 0.0
        """CPU seconds of the longest stall."""
        self.stacks = ""
        """Stacks of the loop's thread, sampled in the longest stall, each with the number of samples."""
        self.memory = 0
        """Bytes by which the peak of the resident memory exceeds the memory at the beginning."""
        self._pace = 1.0
        self._ticked = 0.0
        self._samples: list[str] = []
        """Stacks since the last tick."""
        self._done = threading.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        gc.freeze()
        self._before = _resident("VmRSS")
        _reset_peak()
        self._pace = max(1.0, pace())
        self._ticked = time.process_time()
        self._handle = self._loop.call_later(_TICK_SECONDS, self._tick)
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.cancel()
        self._note()
        gc.unfreeze()
        self._done.set()
        self._sampler.join()
        self._pace = max(self._pace, pace())
        self.memory = max(0, _resident("VmHWM") - self._before)

    def flaw(self) -> str:
        """Message about the limits that were exceeded; empty if none was."""
        if self.longest > STALL_SECONDS * self._pace:
            return f"the event loop stood still for {self.longest:.2f} s of CPU time:\n{self.stacks}"
        if self.memory > MEMORY_BYTES:
            return f"memory grew by {self.memory >> 20} MiB, beyond {MEMORY_BYTES >> 20} MiB"
        return ""

    def _tick(self) -> None:
        self._note()
        self._handle = self._loop.call_later(_TICK_SECONDS, self._tick)

    def _note(self) -> None:
        now = time.process_time()
        samples, self._samples = self._samples, []
        if now - self._ticked > self.longest:
            self.longest = now - self._ticked
            common = Counter(samples).most_common(_SHOWN)
            self.stacks = "\n".join(f"{count} of {len(samples)} samples:\n{stack}" for stack, count in common)
            if self.longest > STALL_SECONDS * self._pace:
                # Another program may share the core just now, and neither before nor after.
                self._pace = max(self._pace, pace())
        self._ticked = time.process_time()

    def _sample(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            frame = sys._current_frames().get(self._thread_id)
            if frame is not None and time.process_time() - self._ticked > _SAMPLE_SECONDS:
                self._samples.append("".join(traceback.format_stack(frame)[-_LINES:]))


def _reset_peak() -> None:
    # proc(5): 5 resets the peak resident set size of the process ("VmHWM").
    Path("/proc/self/clear_refs").write_text("5")


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * _KIB
    raise LookupError(field)
