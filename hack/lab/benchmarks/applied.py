"""Applied benchmark: times of a P2CODE application over several clusters, from its creation to its deletion."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent.api.kinds import PODS, SCHEDULING_MANIFESTS
from agent.cli.progress import Progress
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.p2code.verdicts import SUCCESSFUL
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import application, burst, counters, profiled, report
from hack.lab.benchmarks.budgets import Budget, python_cpu
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.lab.benchmarks.manifests import DEPLOYMENTS
from hack.lab.benchmarks.pods import PodTimes
from hack.lab.benchmarks.run import SETTLE_SECONDS, STALL_SECONDS
from hack.lab.benchmarks.stats import percentile
from hack.lab.sandbox.manifests import NAMESPACE

WORKLOADS = 10
_TURNS = 3
_SOURCE = "cd"
_NODES, _PODS_PER_NODE = 2, 110
_FLAGS = ("--p2code", "--moves", "--discovery-interval=2s")
_DECIDED = "decisions"
_TOLD_SECONDS, _RUNNING_SECONDS = 5.0, 15.0
"""Limits in seconds for ten workloads over four clusters."""


@dataclass(frozen=True)
class Turn:
    """Times of one turn, in seconds.

    The first four count from the request that creates the application: until its decisions are published, all
    is applied, the last pod is observed, and all pods are Running. The last one counts from its deletion until
    nothing is left.
    """

    decided: float
    applied: float
    seen: float
    running: float
    gone: float
    phase: Phase


@dataclass
class Told:
    """Records when the status of an application changes, by a watch."""

    informer: Informer
    workloads: int
    at: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.informer.subscribe(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        status = new.decode().get("status") or {}
        self.at.setdefault(status.get("state", ""), time.monotonic())
        if len(status.get("decisions") or ()) == self.workloads:
            self.at.setdefault(_DECIDED, time.monotonic())


async def applied(
    workloads: int, clusters: int, progress: Progress, *, profile: bool = False
) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    names = (_SOURCE, *(f"c{number}" for number in range(1, clusters + 1)))
    async with open_lab(names, _NODES, _PODS_PER_NODE, progress, agent_flags=_FLAGS) as lab:
        await burst.prepare(lab, profile=profile)
        await application.prepare(lab)
        plain = await _plain(lab, workloads)
        turns = [await _turn(lab, workloads) for _ in range(_TURNS)]
        spots = await profiled.finish(lab.sandbox, _SOURCE) if profile else []
    budgets = _budgets(turns, f"{workloads} workloads over {clusters} clusters")
    cpu = percentile([python_cpu(each.phase) for each in turns], 50)
    writes = percentile([counters.counted(each.phase.writes) for each in turns], 50)
    lines = [
        f"An application of {workloads} workloads over {clusters} clusters, seconds from its creation (and deletion):",
        "",
        *report.table(_rows(turns, plain)),
        "",
        f"  p50 of them: {cpu:.2f} s of CPU of all agents and webhooks, {writes:.0f} API writes of ours",
        *report.budget_lines(budgets),
        *report.disturbance([each.phase for each in turns]),
        *spots,
    ]
    figures = {
        "benchmark": "applications",
        "workloads": workloads,
        "clusters": clusters,
        "profiled": profile,
        "plain_running": plain,
        "turns": [asdict(each) for each in turns],
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


def _budgets(turns: Sequence[Turn], what: str) -> list[Budget]:
    told, running = max(each.decided for each in turns), max(each.running for each in turns)
    return [
        Budget(f"{what}: decisions told, longest", told, "most", _TOLD_SECONDS, "s"),
        Budget(f"{what}: all Running, longest", running, "most", _RUNNING_SECONDS, "s"),
    ]


def _rows(turns: Sequence[Turn], plain: float) -> list[list[str]]:
    rows = [["", "decisions told", "applied", "last pod seen", "all Running", "gone"]]
    for number, each in enumerate(turns, 1):
        times = (each.decided, each.applied, each.seen, each.running, each.gone)
        rows.append([f"turn {number}", *(f"{seconds:.2f}" for seconds in times)])
    return [*rows, ["its Deployments in a plain namespace", "", "", "", f"{plain:.2f}", ""]]


async def _plain(lab: Lab, workloads: int) -> float:
    """Return the seconds until the same Deployments run in the source itself."""
    times = PodTimes(lab.source, burst.PLAIN, application.NAME)
    async with Supervisor("bench") as supervisor:
        supervisor.spawn("pods", times.informer.run)
        await times.informer.synced.wait()
        began = time.monotonic()
        made = (application.deployment(number, burst.PLAIN) for number in range(workloads))
        await asyncio.gather(*(lab.source.create(DEPLOYMENTS, each) for each in made))
        await until("plain pods run", _holds(lambda: len(times.running) == workloads), STALL_SECONDS)
        for number in range(workloads):
            await lab.source.delete(DEPLOYMENTS, f"w{number}", burst.PLAIN, propagation="Background")
        await until("plain pods are gone", _holds(lambda: times.left == 0), STALL_SECONDS)
    return max(times.running.values()) - began


async def _turn(lab: Lab, workloads: int) -> Turn:
    """Create the application, wait until all pods run, delete it, wait until nothing is left."""
    times = PodTimes(lab.source, NAMESPACE, application.NAME)
    told = Told(Informer(lab.source, SCHEDULING_MANIFESTS, NAMESPACE), workloads)
    before = await lab.sample()
    async with Supervisor("bench") as supervisor:
        for informer in (times.informer, told.informer):
            supervisor.spawn(informer.kind.plural, informer.run)
            await informer.synced.wait()
        began = time.monotonic()
        made = application.application(workloads, lab.names[1:])
        await lab.source.create(SCHEDULING_MANIFESTS, made, NAMESPACE)
        await _runs(lab, workloads, times, told)
        await asyncio.sleep(SETTLE_SECONDS)
        after = await lab.sample()
        await _right_places(lab, workloads)
        deleted = time.monotonic()
        await lab.source.delete(SCHEDULING_MANIFESTS, application.NAME, NAMESPACE)
        await until("nothing is left", _holds(lambda: not len(told.informer.store) and not times.left), STALL_SECONDS)
    return Turn(
        decided=told.at[_DECIDED] - began,
        applied=told.at[SUCCESSFUL] - began,
        seen=max(times.added.values()) - began,
        running=max(times.running.values()) - began,
        gone=time.monotonic() - deleted,
        phase=phase(before, after),
    )


async def _runs(lab: Lab, workloads: int, times: PodTimes, told: Told) -> None:
    """Wait until all pods run and the status reports success. Raises BenchError with the status otherwise."""
    done = _holds(lambda: len(times.running) == workloads and SUCCESSFUL in told.at)
    with lab.progress as progress:
        task = progress.task(f"{application.NAME}: pods Running")
        try:
            await until("it runs", done, STALL_SECONDS)
        except BenchError as error:
            found = await lab.source.get(SCHEDULING_MANIFESTS, application.NAME, NAMESPACE)
            raise BenchError(f"{error}: {len(times.running)} pods do, and it says {found.get('status')}") from None
        task.finish(f"{workloads}/{workloads}")


async def _right_places(lab: Lab, workloads: int) -> None:
    """Raise BenchError unless each target has the pods of its own workloads, and no other pods."""
    for index, target in enumerate(lab.targets):
        want = {f"w{number}" for number in range(workloads) if number % len(lab.targets) == index}
        found = {pod["metadata"]["name"].rsplit("-", 3)[0] for pod in await target.list(PODS, NAMESPACE)}
        if found != want:
            raise BenchError(f"{target.name} should have the pods of {sorted(want)}, and has those of {sorted(found)}")


def _holds(true: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def probe() -> bool:
        return true()

    return probe
