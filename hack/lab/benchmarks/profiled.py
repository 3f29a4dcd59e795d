"""Profiling of the source's agent: restarts it by the launcher, and reads the profile."""

import marshal
import os
import sys
from pathlib import Path
from typing import Any

from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.report import table
from hack.lab.sandbox import Sandbox, process
from hack.lab.sandbox.bringup import start_agents
from hack.lab.sandbox.components import AGENT, Component, Context
from hack.lab.sandbox.objects import REPOSITORY

FILE = "agent.profile"
TOP = 25
LAUNCHER = "hack.lab.benchmarks.launcher"

_Function = tuple[str, int, str]
"""File, line, name."""
_Figures = tuple[int, int, float, float, Any]
"""Calls that were not recursive, all calls, own seconds, seconds with callees, callers."""


async def start(sandbox: Sandbox, cluster: str) -> None:
    """Restart a cluster's agent under the profiler. Raises SandboxError."""
    await start_with(sandbox, cluster, AGENT, LAUNCHER, str(sandbox[cluster].directory / FILE))


async def start_with(sandbox: Sandbox, cluster: str, component: Component, launcher: str, *arguments: str) -> None:
    """Restart an agent or webhook by a launcher module, which gets `arguments` first. Raises SandboxError."""
    await sandbox.stop(cluster, component.name)
    runner = sandbox[cluster].runner
    python, _, *rest = component.argv(Context(runner.plan, runner.cluster, runner.directory))
    process.start(
        [python, "-m", launcher, *arguments, *rest],
        process.environment(os.environ, runner.mark(component.name), str(REPOSITORY)),
        log=runner.directory / f"{component.name}.log",
        pid_file=runner.directory / f"{component.name}.pid",
        namespace=runner.cluster.namespace,
    )
    await start_agents(runner)


async def finish(sandbox: Sandbox, cluster: str) -> list[str]:
    """Stop the agent, which then writes the profile. Return its most expensive functions as text."""
    await sandbox.stop(cluster, AGENT.name)
    path = sandbox[cluster].directory / FILE
    if not path.exists():
        raise BenchError(f"the profiler left no file {path}: the agent did not end in an orderly way")
    return ["", *table(hot_spots(path))]


def hot_spots(path: Path, top: int = TOP) -> list[list[str]]:
    """Return the functions with the most CPU time of their own, as rows of a table."""
    # Reads the profiler's own format: `pstats` has types only for bare function names, which are not unique.
    profile: dict[_Function, _Figures] = marshal.loads(path.read_bytes())
    total = sum(own for _, _, own, _, _ in profile.values())
    rows = [["function", "own CPU s", "share", "with callees s", "calls"]]
    for (file, line, name), (_, calls, own, cumulative, _) in sorted(profile.items(), key=_own_time)[:top]:
        place = f" {_short(file)}:{line}" if line else ""
        share = own / total * 100 if total else 0.0
        rows.append([name + place, f"{own:.2f}", f"{share:.1f} %", f"{cumulative:.2f}", str(calls)])
    return rows


def _own_time(entry: tuple[_Function, _Figures]) -> float:
    return -entry[1][2]


def _short(file_name: str) -> str:
    for root in (str(REPOSITORY) + "/", sys.prefix + "/", sys.base_prefix + "/"):
        file_name = file_name.removeprefix(root)
    return file_name.rpartition("site-packages/")[2]
