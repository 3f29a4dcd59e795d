"""Idle benchmark: CPU and writes of a source's agent with many targets, while nothing changes."""

import asyncio
import time
from pathlib import Path
from typing import Any

from agent.cli.progress import Progress
from hack.lab.benchmarks import report
from hack.lab.benchmarks.budgets import idle_budgets
from hack.lab.benchmarks.burst import takes_pods
from hack.lab.benchmarks.joining import join
from hack.lab.benchmarks.lab import Lab, open_lab, phase, until
from hack.lab.benchmarks.profiled import start_with
from hack.lab.benchmarks.stillness import longest, standstills
from hack.lab.sandbox.components import AGENT

SOURCE, _ = CLUSTERS = ("cd", "us")
TARGETS = 20
"""Number of namespaces in one target cluster, each with a Source there and a Target in the source."""
SETTLE_SECONDS = 15.0
_JOINED_AT_ONCE = 20
_PATIENCE_SECONDS = 600.0
MEASURE_SECONDS = 30.0


async def idle(targets: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    async with open_lab(CLUSTERS, 3, 110, progress) as lab:
        path = await watch_agent(lab)
        await join_all(lab, targets)
        await wait(lab, "settling", SETTLE_SECONDS)
        before = await lab.sample()
        await wait(lab, "measuring", MEASURE_SECONDS)
        found = phase(before, await lab.sample())
        still = standstills(path, before.moment, time.monotonic())
    budgets = idle_budgets(found, SOURCE, targets, longest(still))
    figures = {
        "benchmark": "idle",
        "targets": targets,
        "seconds": found.seconds,
        "cpu_seconds": found.cpu,
        "strangers_cpu_seconds": found.strangers,
        "writes": found.writes,
        "standstills": [each._asdict() for each in still],
        "budgets": report.budget_figures(budgets),
    }
    lines = [
        *report.idle_lines(found, targets),
        *report.standstill_lines("idle", still),
        *report.budget_lines(budgets),
        *report.disturbance([found]),
    ]
    return lines, figures


async def watch_agent(lab: Lab) -> Path:
    """Restart the source's agent so that it writes its standstills to a file. Return the file."""
    path = lab.sandbox[SOURCE].directory / "agent.standstills"
    path.touch()
    await start_with(lab.sandbox, SOURCE, AGENT, "hack.lab.benchmarks.stillness", str(path))
    return path


async def join_all(lab: Lab, targets: int) -> None:
    """Join `targets` namespaces of the target, and wait until all virtual nodes accept pods."""
    slots = asyncio.Semaphore(_JOINED_AT_ONCE)
    await asyncio.gather(*(_join(lab, slots, f"team-{number}") for number in range(targets)))
    await until(f"{targets} virtual nodes take pods", lambda: takes_pods(lab, targets), _PATIENCE_SECONDS)


async def _join(lab: Lab, slots: asyncio.Semaphore, name: str) -> None:
    async with slots:
        await join(lab, name, lab.targets[0])


async def wait(lab: Lab, what: str, seconds: float) -> None:
    """Wait, and show the progress."""
    with lab.progress as progress:
        task = progress.task(what)
        for second in range(int(seconds)):
            task.update(second, seconds, f"{second}/{seconds:.0f} s")
            await asyncio.sleep(1)
        task.finish(f"{seconds:.0f} s")
