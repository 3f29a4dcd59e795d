"""`python -m hack.lab.benchmarks.stillness FILE MODULE ...`: runs a module, and records its event loop's standstills.

A standstill is one pass of the event loop that takes more than LEAST seconds of its thread's CPU time.
Wall-clock time would include the delay by other programs. A line of FILE is a JSON array.
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
    """A long pass of the event loop."""

    moment: float
    """End of the pass in seconds of the monotonic clock, which all processes of a machine share."""
    seconds: float


def main(path: str, module: str) -> None:
    """Run a module as a program, and append its standstills to a file."""
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
