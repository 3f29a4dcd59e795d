"""Silent benchmark: CPU and standstills of the source's agent while all targets stop answering and recover."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.cli.progress import Progress
from hack.lab.benchmarks import report
from hack.lab.benchmarks.budgets import silent_budgets
from hack.lab.benchmarks.burst import takes_pods
from hack.lab.benchmarks.idle import CLUSTERS, SETTLE_SECONDS, SOURCE, join_all, wait, watch_agent
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase
from hack.lab.benchmarks.stillness import Standstill, longest, standstills

SILENT_SECONDS, BACK_SECONDS = 60.0, 60.0


async def silent(targets: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    async with open_lab(CLUSTERS, 3, 110, progress, agent_flags=("--moves",)) as lab:
        path = await watch_agent(lab)
        await join_all(lab, targets)
        await wait(lab, "settling", SETTLE_SECONDS)
        with _stopped(lab):
            quiet = await _measured(lab, path, "silent", SILENT_SECONDS)
        back = await _measured(lab, path, "coming back", BACK_SECONDS)
        is_back = await takes_pods(lab, targets)
    phases = {"silent": quiet, "coming back": back}
    budgets = silent_budgets((quiet[0], longest(quiet[1])), (back[0], longest(back[1])), SOURCE, targets)
    figures = {
        "benchmark": "silent",
        "targets": targets,
        "all_back": is_back,
        "standstills": {name: [each._asdict() for each in found] for name, (_, found) in phases.items()},
        "budgets": report.budget_figures(budgets),
    }
    note = f"{BACK_SECONDS:.0f} s after they came back all virtual nodes take pods: {'yes' if is_back else 'not yet'}"
    lines = [line for name, (_, found) in phases.items() for line in report.standstill_lines(name, found)]
    lines += [*report.budget_lines(budgets, note), *report.disturbance([quiet[0], back[0]])]
    return lines, figures


async def _measured(lab: Lab, path: Path, what: str, seconds: float) -> tuple[Phase, list[Standstill]]:
    before, began = await lab.sample(), time.monotonic()
    await wait(lab, what, seconds)
    after = await lab.sample()
    return phase(before, after), standstills(path, began, time.monotonic())


@contextlib.contextmanager
def _stopped(lab: Lab) -> Iterator[None]:
    """Stop the targets' API server: it accepts connections and never answers, as behind a link that drops packets."""
    name = CLUSTERS[1]
    pid = next(
        line.pid
        for line in lab.sandbox.status()
        if (line.cluster, line.process) == (name, "kube-apiserver") and line.pid is not None
    )
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
