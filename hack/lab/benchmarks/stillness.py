"""`python -m hack.lab.benchmarks.stillness FILE MODULE ...`: runs a module, and records its event loop's standstills.

A standstill is one pass of the event loop that takes more than LEAST seconds of its thread's CPU time.
Wall-clock time would include the delay by other programs. A line of FILE is a JSON array.
"""

import gc
import json
import runpy
import sys
import threading
import time
from asyncio import base_events
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

LEAST = 0.02
_SAMPLE_SECONDS = 0.01
_LINES = 6
"""Innermost frames of a stack that are recorded."""


class Standstill(NamedTuple):
    """A long pass of the event loop."""

    moment: float
    """End of the pass in seconds of the monotonic clock, which all processes of a machine share."""
    seconds: float
    where: str = ""
    """The most frequent stack in the pass, the innermost function last; empty if none was sampled."""
    collecting: float = 0.0
    """CPU seconds of the pass that the garbage collector took. No other thread runs then, so no stack is sampled."""


class Sampler:
    """A thread that samples the stack of the event loop's thread during long passes."""

    def __init__(self) -> None:
        self._loop_thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._loop_thread)
        self._began: float | None = None
        self._stacks: Counter[str] = Counter()
        self._collecting = self._collected = 0.0
        gc.callbacks.append(self._note)
        threading.Thread(target=self._run, name="stillness", daemon=True).start()

    def begin(self) -> None:
        """Begin a pass of the event loop."""
        self._collected = 0.0
        self._began = time.clock_gettime(self._clock)

    def end(self) -> Standstill:
        """End the pass."""
        assert self._began is not None
        took = time.clock_gettime(self._clock) - self._began
        stacks, self._stacks, self._began = self._stacks, Counter(), None
        return Standstill(time.monotonic(), took, stacks.most_common(1)[0][0] if stacks else "", self._collected)

    def _note(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._collected += time.thread_time() - self._collecting

    def _run(self) -> None:
        while True:
            time.sleep(_SAMPLE_SECONDS)
            began = self._began
            if began is not None and time.clock_gettime(self._clock) - began > LEAST / 2:
                frame = sys._current_frames().get(self._loop_thread)
                self._stacks[_stack(frame)] += 1


def _stack(frame: FrameType | None) -> str:
    """Return the innermost functions of a callback of the event loop, the outermost of them first."""
    found: list[str] = []
    while frame is not None and len(found) < _LINES and frame.f_code.co_name not in ("_run_once", "_run"):
        found.append(f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno} {frame.f_code.co_qualname}")
        frame = frame.f_back
    return " > ".join(reversed(found))


def main(path: str, module: str) -> None:
    """Run a module as a program, and append its standstills to a file."""
    pass_of_loop: Any = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]
    sampler = Sampler()
    with Path(path).open("a", buffering=1) as file:

        def watched(loop: Any) -> None:
            sampler.begin()
            pass_of_loop(loop)
            found = sampler.end()
            if found.seconds > LEAST:
                file.write(json.dumps(found) + "\n")

        base_events.BaseEventLoop._run_once = watched  # type: ignore[attr-defined]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def standstills(path: Path, since: float, until: float) -> list[Standstill]:
    """Return the standstills between two moments, the longest first."""
    found = (Standstill(*json.loads(line)) for line in path.read_text().splitlines() if line.endswith("]"))
    return sorted((each for each in found if since <= each.moment <= until), key=lambda each: -each.seconds)


def longest(found: Sequence[Standstill]) -> float:
    """Return the CPU seconds of the longest standstill; 0 if there is none."""
    return found[0].seconds if found else 0.0


if __name__ == "__main__":
    file, *sys.argv = sys.argv[1:]
    main(file, sys.argv[0])
