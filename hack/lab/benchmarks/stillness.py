"""`python -m hack.lab.benchmarks.stillness FILE MODULE ...`: run a module, and write down when its event loop stood
still.

A standstill is one pass of the event loop that takes more than LEAST seconds of CPU time of its thread: on a machine
that other programs use, too, wall-clock time would blame the agent for them. A line of FILE is a JSON object.
"""

import json
import runpy
import sys
import time
from asyncio import base_events
from pathlib import Path
from typing import Any, NamedTuple

LEAST = 0.02


class Standstill(NamedTuple):
    """One pass of the event loop that took long."""

    moment: float
    """When it ended: seconds of the monotonic clock, which all processes of a machine share."""
    seconds: float


def main(path: str, module: str) -> None:
    """Run a module as a program."""
    pass_of_loop: Any = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]
    with Path(path).open("a", buffering=1) as file:

        def watched(loop: Any) -> None:
            began = time.thread_time()
            pass_of_loop(loop)
            took = time.thread_time() - began
            if took > LEAST:
                file.write(json.dumps(Standstill(time.monotonic(), took)) + "\n")

        base_events.BaseEventLoop._run_once = watched  # type: ignore[attr-defined]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def longest(path: Path, since: float, until: float) -> float:
    """Return the CPU seconds of the longest standstill between two moments; 0 if none was longer than LEAST."""
    found = (Standstill(*json.loads(line)) for line in path.read_text().splitlines() if line.endswith("]"))
    return max((each.seconds for each in found if since <= each.moment <= until), default=0.0)


if __name__ == "__main__":
    file, *sys.argv = sys.argv[1:]
    main(file, sys.argv[0])
