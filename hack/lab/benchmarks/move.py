"""Move benchmark: an annotation moves N pods of a Deployment to another target; compared with a plain rollout.

Both Deployments have a Service and the default strategy: 25 % surge, and in a rollout 25 % unavailable.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from agent.api.kinds import PODS, SERVICES
from agent.api.names import SHORT_PREFIX, moves
from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import counters, report, stats
from hack.lab.benchmarks.budgets import Budget, per_pod, python_cpu, total_cpu
from hack.lab.benchmarks.burst import CLUSTERS, NODES_EACH, PLAIN, pods_per_node, prepare
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.lab.benchmarks.manifests import APP, DEPLOYMENTS, deployment
from hack.lab.benchmarks.run import SETTLE_SECONDS, STALL_SECONDS
from hack.lab.sandbox.manifests import NAMESPACE

MOVED = 100
FLAGS = ("--moves",)
_APP = "web"
_FROM, _TO = CLUSTERS[2], CLUSTERS[1]
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
_WRITES = 24.0
"""Most writes per moved pod: a pod's usual life (9), annotations of both pods and their copies on delegates
(8), the last status of the old pod (1). Slices and summaries of all clusters change with every pod (5).
"""


@dataclass(frozen=True)
class Change:
    """A patch that replaces all pods of a Deployment."""

    name: str
    namespace: str
    elected: bool
    patch: dict[str, Any]


_TEMPLATE = {"metadata": {"annotations": {_RESTARTED: "2026-01-01T00:00:00Z"}}}
RESTART = Change("restarted", PLAIN, False, {"spec": {"template": _TEMPLATE}})
MOVE = Change("moved", NAMESPACE, True, {"metadata": {"annotations": {SHORT_PREFIX + moves.TARGETS: _TO}}})


@dataclass(frozen=True)
class Renewed:
    """Results of one change.

    `seconds` count from the request until the last new pod counts and the last old pod has ended. `start`
    counts from the first observation of a new pod until it runs and belongs to the Deployment.
    """

    pods: int
    seconds: float
    start: stats.Spread
    fewest: int
    most: int
    phase: Phase

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


class Renewal:
    """Records the replacement of one Deployment's pods. Times are of `time.monotonic`, by UID."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.informer = Informer(client, PODS, namespace, labels=f"{APP}={_APP}")
        self.old: frozenset[str] = frozenset()
        self.last_change = time.monotonic()
        self.fewest, self.most = 10**6, 0
        self._seen: dict[str, float] = {}
        self._new: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self.informer.subscribe(self.changed)

    def begin(self) -> None:
        """Mark all current pods as old."""
        self.old = frozenset(pod.uid for pod in self.informer.store)
        self.fewest, self.most = len(self.old), len(self.old)
        self.last_change = time.monotonic()

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Record a changed or deleted pod."""
        pod, now = new or old, time.monotonic()
        assert pod is not None
        self.last_change = now
        if pod.uid in self.old:
            if new is None or new.deleting:
                self._ended.setdefault(pod.uid, now)
        elif new is not None:
            self._seen.setdefault(pod.uid, now)
            if counts(new):
                self._new.setdefault(pod.uid, now)
        living = [each for each in self.informer.store if not each.deleting]
        self.fewest = min(self.fewest, sum(map(counts, living)))
        self.most = max(self.most, len(living))

    async def is_over(self) -> bool:
        """Return whether all pods have been deleted."""
        return len(self.informer.store) == 0

    @property
    def done(self) -> int:
        """Number of replaced pods."""
        return min(len(self._new), len(self._ended))

    @property
    def finished(self) -> float:
        """Time of the last replacement."""
        return max(*self._new.values(), *self._ended.values())

    @property
    def latencies(self) -> list[float]:
        """Seconds from the first observation of each new pod until it counted."""
        return [moment - self._seen[uid] for uid, moment in self._new.items()]


def counts(pod: Object) -> bool:
    """Return whether a pod runs and belongs to its Deployment."""
    return pod.phase == "Running" and pod.controller is not None


async def move(pods: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    async with open_lab(CLUSTERS, NODES_EACH, pods_per_node(2 * pods), progress, agent_flags=FLAGS) as lab:
        await prepare(lab)
        restarted, moved = [await renewed(lab, change, pods) for change in (RESTART, MOVE)]
    budgets = [
        Budget("fewest pods running while they move", float(moved.fewest), "least", float(pods), ""),
        Budget("API writes per moved pod", per_pod(moved.phase, pods), "most", _WRITES, ""),
    ]
    lines = [
        *compared(restarted, moved),
        *writes(moved),
        *report.budget_lines(budgets),
        *report.disturbance((restarted.phase, moved.phase)),
    ]
    figures = {
        "benchmark": "move",
        "pods": pods,
        "restarted": {"pods_per_second": restarted.rate, **asdict(restarted)},
        "moved": {"pods_per_second": moved.rate, **asdict(moved)},
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


async def renewed(lab: Lab, change: Change, pods: int) -> Renewed:
    """Create a Deployment, measure one change of it, and delete it."""
    times = Renewal(lab.source, change.namespace)
    async with Supervisor("bench") as supervisor:
        supervisor.spawn("pods", times.informer.run)
        await times.informer.synced.wait()
        await _deploy(lab, change, pods)
        await _wait(lab, times, f"{change.name}: pods Running", lambda: sum(map(counts, times.informer.store)), pods)
        await asyncio.sleep(SETTLE_SECONDS)
        before = await lab.sample()
        times.begin()
        began = time.monotonic()
        await lab.source.patch(DEPLOYMENTS, _APP, change.patch, change.namespace)
        await _wait(lab, times, f"pods {change.name}", lambda: times.done, pods)
        await asyncio.sleep(SETTLE_SECONDS)
        after = await lab.sample()
        if change.elected and (left := await _delegates(lab, _FROM)):
            raise BenchError(f"all pods have moved, but {left} are left in {_FROM}")
        found = Renewed(
            pods,
            times.finished - began,
            stats.Spread.of(times.latencies),
            times.fewest,
            times.most,
            phase(before, after),
        )
        for kind, name in ((DEPLOYMENTS, _APP), (SERVICES, _APP)):
            await lab.source.delete(kind, name, change.namespace, propagation="Background")
        await until("nothing is left of the Deployment", times.is_over, STALL_SECONDS)
    return found


async def _deploy(lab: Lab, change: Change, pods: int) -> None:
    manifest = deployment(_APP, change.namespace, pods, elected=change.elected)
    if change.elected:
        manifest["metadata"]["annotations"] = {SHORT_PREFIX + moves.TARGETS: _FROM}
    service = {"metadata": {"name": _APP}, "spec": {"selector": {APP: _APP}, "ports": [{"port": 80}]}}
    await lab.source.create(SERVICES, {"apiVersion": "v1", "kind": "Service", **service}, change.namespace)
    await lab.source.create(DEPLOYMENTS, manifest)


async def _wait(lab: Lab, times: Renewal, what: str, done: Callable[[], int], pods: int) -> None:
    """Wait until all pods are done. Raises BenchError after a period without changes."""
    with lab.progress as progress:
        task = progress.task(what)
        while (count := done()) < pods:
            if time.monotonic() - times.last_change > STALL_SECONDS:
                raise BenchError(f"{what}: {count} of {pods}, and nothing has moved for {STALL_SECONDS:.0f} s")
            task.update(count, pods, f"{count}/{pods}")
            await asyncio.sleep(0.05)
        task.finish(f"{pods}/{pods}")


async def _delegates(lab: Lab, cluster: str) -> int:
    """Return how many of the pods a target still has, without terminating ones."""
    found = await lab.clients[cluster].list(PODS, NAMESPACE)
    mine = [pod["metadata"] for pod in found if pod["metadata"]["name"].startswith(f"{_APP}-")]
    return sum("deletionTimestamp" not in metadata for metadata in mine)


def writes(moved: Renewed) -> list[str]:
    """Return a table of the writes of agents and webhooks per moved pod."""
    found = sorted(counters.by_resource(moved.phase.writes).items())
    rows = [[f"  {key}", f"{count / moved.pods:.2f}"] for key, count in found]
    return ["", *report.table([["API writes per moved pod", ""], *rows])]


_FIGURES: tuple[tuple[str, str, Callable[[Renewed], float]], ...] = (
    ("pods/s", "", lambda found: found.rate),
    ("creation of a pod until it counts p50", " s", lambda found: found.start.p50),
    ("creation of a pod until it counts p99", " s", lambda found: found.start.p99),
    ("CPU of all clusters per pod", " ms", lambda found: total_cpu(found.phase) / found.pods * 1000),
    ("CPU of agents and webhooks per pod", " ms", lambda found: python_cpu(found.phase) / found.pods * 1000),
    ("API writes of ours per pod", "", lambda found: per_pod(found.phase, found.pods)),
    ("fewest pods running", "", lambda found: float(found.fewest)),
    ("most pods", "", lambda found: float(found.most)),
)


def compared(restarted: Renewed, moved: Renewed) -> list[str]:
    """Return a table that compares both."""
    rows = [[f"{moved.pods} pods", "plain rollout", "moved", "ratio"]]
    for name, unit, figure in _FIGURES:
        first, second = figure(restarted), figure(moved)
        ratio = f"{second / first:.2f} x" if first else ""
        rows.append([name, f"{first:.3g}{unit}", f"{second:.3g}{unit}", ratio])
    return ["", *report.table(rows), "  by one watch and the local clock, from the request that changes the Deployment"]
