"""Memory of agents and webhooks over time, and CPU time of all processes in a sandbox."""

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import mean

from hack.lab.benchmarks import procfs
from hack.lab.sandbox import Sandbox

WATCHED = ("agent", "agent-2", "webhook")
PAUSE_SECONDS = 2.0
_KIB_PER_MIB = 1024


class Figures:
    """Measurements of a sandbox.

    `memory`: pairs of seconds and MiB, by CLUSTER/PROCESS. `cpu`: CPU seconds by program. `strangers`: fraction
    of the machine's CPU that unrelated processes have used since the first measurement.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.memory: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._sandbox = sandbox
        self._cpu: dict[tuple[str, int], float] = {}
        self._began = time.monotonic()
        self._first = (0.0, 0.0, 0.0)
        self.strangers = 0.0

    @property
    def cpu(self) -> dict[str, float]:
        """CPU seconds that each program has used."""
        found: dict[str, float] = defaultdict(float)
        for (name, _), seconds in self._cpu.items():
            found[name] += seconds
        return dict(found)

    async def run(self) -> None:
        """Measure every two seconds until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(PAUSE_SECONDS)

    def look(self) -> None:
        """Measure once; skip processes that have just ended."""
        now = time.monotonic() - self._began
        for line in self._sandbox.status():
            if line.pid is None:
                continue
            with contextlib.suppress(OSError):
                usage = procfs.usage(line.pid)
                self._cpu[line.process.removesuffix("-2"), line.pid] = usage.cpu
                if line.process in WATCHED:
                    self.memory[f"{line.cluster}/{line.process}"].append((now, usage.rss / _KIB_PER_MIB))
        self._compare()

    def _compare(self) -> None:
        """Compute the CPU time that neither the sandbox nor this process used."""
        now = (time.monotonic(), procfs.machine(), sum(self._cpu.values()) + time.process_time())
        if not self._first[0]:
            self._first = now
            return
        seconds, machine, ours = (after - before for after, before in zip(now, self._first, strict=True))
        self.strangers = max(0.0, machine - ours) / (seconds * (os.cpu_count() or 1))


def thirds(series: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return the means of the first, middle and last third, and the maximum."""
    values = [value for _, value in series]
    third = max(1, len(values) // 3)
    return {
        "first": mean(values[:third]),
        "middle": mean(values[third : 2 * third] or values),
        "last": mean(values[-third:]),
        "most": max(values),
    }
