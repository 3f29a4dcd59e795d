"""Failover benchmark: time from the loss of a target with many pods until all of them run in two other targets.

The Deployments have three priority classes. `--failover-after` is short: it adds a fixed time.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agent.api.conditions import condition_of
from agent.api.kinds import NAMESPACES, PODS, TARGETS, Kind
from agent.api.names import SHORT_PREFIX, lifecycle, moves, virtual_node
from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import report, stats
from hack.lab.benchmarks.budgets import Budget, per_pod
from hack.lab.benchmarks.burst import NODES_EACH, pods_per_node, prepare
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import BENCH, OURS, Lab, Phase, open_lab, phase
from hack.lab.benchmarks.manifests import DEPLOYMENTS, deployment
from hack.lab.sandbox.manifests import NAMESPACE

OWNERS, LOST_PODS = 500, 2000
AFTER_SECONDS = 30
LIMIT_SECONDS = 60.0
"""Limit in seconds from the loss of the target until the last pod runs in another target."""
CLASSES = {"high": 1000, "middle": 100, "low": 0}
_CLUSTERS = ("cd", "us", "eu", "gone")
_GONE = _CLUSTERS[3]
_PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
_MARK = "bench"
_AT_ONCE = 16
_STALL_SECONDS = 180.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Recovery:
    """Times in seconds: from the cut until the target is unreachable, and lost; from the loss until each pod runs."""

    unreachable: float
    lost: float
    seconds: Mapping[str, list[float]]
    """Times until pods run, by priority class, in ascending order."""
    first: Mapping[str, list[float]]
    """Times until replacements were created, by priority class, in ascending order."""
    work: Phase
    """CPU time and writes since the cut."""

    @property
    def last(self) -> float:
        """Seconds until the last pod runs."""
        return max(each[-1] for each in self.seconds.values())


class Pods:
    """Pods of the Deployments, as one watch reports them. Times are of `time.monotonic`, by UID."""

    def __init__(self, client: Client) -> None:
        self.informer = Informer(client, PODS, NAMESPACE, labels=_MARK)
        self.created: dict[str, float] = {}
        self.running: dict[str, float] = {}
        self.classes: dict[str, str] = {}
        self.last_change = time.monotonic()
        self._node = virtual_node(NAMESPACE, _GONE)
        self.informer.subscribe(self._changed)

    def forget(self) -> None:
        """Discard all times: only later events count."""
        self.created.clear()
        self.running.clear()

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        self.last_change = now = time.monotonic()
        self.classes[new.uid] = new.labels[_MARK]
        if old is None:
            self.created[new.uid] = now
        if new.phase == "Running" and new.controller is not None and not new.deleting:
            self.running.setdefault(new.uid, now)

    def elsewhere(self) -> int:
        """Return how many pods have started since `forget` in another target than the lost one."""
        return sum(pod.uid in self.running and pod.node_name != self._node for pod in self.informer.store)


async def failover(owners: int, pods: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    if pods % owners:
        raise BenchError(f"{pods} pods are not the same number for each of {owners} Deployments")
    flags = ("--moves", f"--failover-after={AFTER_SECONDS}s")
    async with open_lab(_CLUSTERS, NODES_EACH, pods_per_node(2 * pods), progress, agent_flags=flags) as lab:
        await prepare(lab)
        found = await _measured(lab, owners, pods)
    budgets = failover_budgets(found)
    figures = {
        "benchmark": "failover",
        "owners": owners,
        "pods": pods,
        **asdict(found),
        "budgets": report.budget_figures(budgets),
    }
    return [*failover_lines(found), *report.budget_lines(budgets)], figures


def failover_budgets(found: Recovery) -> list[Budget]:
    """Return the promised limit."""
    return [Budget("target is lost, until the last pod runs elsewhere", found.last, "most", LIMIT_SECONDS, "s")]


def failover_lines(found: Recovery) -> list[str]:
    """Return a table of the times of each step and priority class."""
    rows = [["priority", "pods", "first created", "last created", "p50 runs", "last runs"]]
    for name, times in found.seconds.items():
        created, spread = found.first[name], stats.Spread.of(times)
        moments = (created[0], created[-1], spread.p50, spread.longest)
        rows.append([name, str(len(times)), *(f"{moment:.1f} s" for moment in moments)])
    detected = f"cut off, until unreachable: {found.unreachable:.1f} s; until lost: {found.lost:.1f} s"
    return [
        "",
        f"{detected}, of which {AFTER_SECONDS} s are failover-after",
        "since the target is lost:",
        *report.table(rows),
        *_work_lines(found),
    ]


def _work_lines(found: Recovery) -> list[str]:
    """Return the CPU time of all processes since the cut, and the writes of agents and webhooks."""
    work, pods = found.work, sum(map(len, found.seconds.values()))
    groups: dict[str, float] = defaultdict(float)
    for key, seconds in work.cpu.items():
        groups[_group(key)] += seconds
    groups["strangers on this machine"] = work.strangers
    rows = [[f"CPU since the cut, {work.seconds:.0f} s", "seconds", "ms per pod"]]
    rows += [[name, f"{seconds:.1f}", f"{seconds / pods * 1000:.0f}"] for name, seconds in sorted(groups.items())]
    writes = f"API writes of agents and webhooks per pod: {per_pod(work, pods):.1f}"
    return ["", *report.table(rows), writes, *report.disturbance([work])]


def _group(key: str) -> str:
    """Return the row of a process, `CLUSTER/PROCESS`, in the table of CPU time."""
    if key == BENCH:
        return "benchmark"
    cluster, _, process = key.partition("/")
    place = "source" if cluster == _CLUSTERS[0] else "targets"
    return f"{process if process in OURS else 'rest'} ({place})"


async def _measured(lab: Lab, owners: int, pods: int) -> Recovery:
    client, watched = lab.source, Pods(lab.source)
    async with Supervisor("bench") as supervisor:
        supervisor.spawn("pods", watched.informer.run)
        await watched.informer.synced.wait()
        await _create(client, owners, pods // owners)
        await _count(lab, watched, "pods Running", lambda: len(watched.running), pods)
        if watched.elsewhere():
            raise BenchError(f"{watched.elsewhere()} pods are not in {_GONE}")
        before = await lab.sample((_GONE,))
        watched.forget()
        cut = time.monotonic()
        await lab.sandbox.set_link(_GONE, up=False)
        unreachable = await _until(client, "Reachable", "False")
        lost = await _until(client, lifecycle.TARGET_LOST, "True")
        await _count(lab, watched, "pods elsewhere", watched.elsewhere, pods)
        work = phase(before, await lab.sample((_GONE,)))
    return Recovery(
        unreachable - cut,
        lost - cut,
        _by_class({uid: at for uid, at in watched.running.items() if uid in watched.created}, watched.classes, lost),
        _by_class(watched.created, watched.classes, lost),
        work,
    )


def _by_class(moments: Mapping[str, float], classes: Mapping[str, str], since: float) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for uid, moment in moments.items():
        found[classes[uid]].append(moment - since)
    return {name: sorted(found[name]) for name in CLASSES if name in found}


async def _create(client: Client, owners: int, replicas: int) -> None:
    """Create the Deployments in the target that will be lost, with alternating priority classes."""
    for name, value in CLASSES.items():
        await client.create(_PRIORITY_CLASSES, {"metadata": {"name": f"bench-{name}"}, "value": value})
    chosen = {SHORT_PREFIX + moves.TARGETS: f"{_GONE} > us,eu"}
    await client.patch(NAMESPACES, NAMESPACE, {"metadata": {"annotations": chosen}})
    slots = asyncio.Semaphore(_AT_ONCE)

    async def make(number: int) -> None:
        name = list(CLASSES)[number % len(CLASSES)]
        manifest = deployment(f"app-{number}", NAMESPACE, replicas, elected=True)
        template = manifest["spec"]["template"]
        template["metadata"]["labels"][_MARK] = name
        template["spec"]["priorityClassName"] = f"bench-{name}"
        async with slots:
            await client.create(DEPLOYMENTS, manifest)

    await asyncio.gather(*(make(number) for number in range(owners)))


async def _until(client: Client, kind: str, status: str) -> float:
    """Wait until a condition of the Target has a status, and return the time."""

    async def said() -> bool:
        found = condition_of(await client.get(TARGETS, _GONE, NAMESPACE), kind)
        return (found or {}).get("status") == status

    return await _moment(said, f"{kind} of {_GONE} is {status}")


async def _moment(probe: Callable[[], Awaitable[bool]], what: str) -> float:
    deadline = time.monotonic() + _STALL_SECONDS
    while not await probe():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {_STALL_SECONDS:.0f} s in vain until {what}")
        await asyncio.sleep(_LOOK_SECONDS)
    return time.monotonic()


async def _count(lab: Lab, watched: Pods, what: str, done: Callable[[], int], pods: int) -> None:
    """Wait until all pods are done. Raises BenchError after a period without changes."""
    watched.last_change = time.monotonic()
    with lab.progress as progress:
        task = progress.task(what)
        while (count := done()) < pods:
            if time.monotonic() - watched.last_change > _STALL_SECONDS:
                raise BenchError(f"{what}: {count} of {pods}, and nothing has moved for {_STALL_SECONDS:.0f} s")
            task.update(count, pods, f"{count}/{pods}")
            await asyncio.sleep(_LOOK_SECONDS)
        task.finish(f"{pods}/{pods}")
