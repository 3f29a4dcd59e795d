"""Runs a soak: a fleet, its users, the faults of a plan, and the verdict."""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.api.kinds import LEASES, PODS
from agent.api.names import NODE_LEASE_NAMESPACE
from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.kube.errors import KubeError
from hack.lab.benchmarks.burst import elects, takes_pods
from hack.lab.benchmarks.lab import Lab, lab_in, new_directory, until
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.manifests import NAMESPACE
from hack.lab.soak import audit, workload
from hack.lab.soak.errors import SoakError
from hack.lab.soak.evidence import LEADER_SECONDS, Evidence, Outage
from hack.lab.soak.figures import Figures
from hack.lab.soak.judge import Violation, judge
from hack.lab.soak.leftovers import EVERYWHERE, IN_NAMESPACE, Listed, last_made, problems
from hack.lab.soak.lives import History
from hack.lab.soak.plan import CLUSTERS, SOURCE, Plan, Step, wanted
from hack.lab.soak.saboteur import Saboteur

WELL_SECONDS = 60.0
"""Limit in seconds until all is well, after the last fault or after a Kubernetes controller created the
youngest pod. After faults these controllers back off up to 60 s (client-go: tools/cache/reflector.go).
"""
AUDIT = Path(__file__).with_name("audit.yaml")
_NODES = 5
_SPARE = 1.5
_LOOK_SECONDS = 1.0
_LATE_SECONDS = 180.0
"""Seconds by which the plan may be late, and deletions may take."""
_KEPT = ("audit*.log", "agent*.log", "webhook.log")
Note = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """Result of a soak.

    `well`: seconds from the last fault until all was as wanted. `empty`: seconds from the deletion of all
    workloads until nothing was left.
    """

    plan: Plan
    violations: Sequence[Violation]
    well: float
    empty: float
    outages: Sequence[Outage]
    history: History
    figures: Figures
    restarted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Patience:
    """Limits in seconds: from the last fault until all is well, and without a leader."""

    well: float = WELL_SECONDS
    leaderless: float = LEADER_SECONDS


async def soak(
    plan: Plan,
    progress: Progress,
    note: Note,
    *,
    patience: Patience = Patience(),
    keep: Path | None = None,
    always: bool = False,
) -> Result:
    """Execute a plan and judge it. Copies logs to `keep` after violations or a failure, or if `always`.

    Raises SandboxError or BenchError if the fleet does not start, SoakError if it cannot be queried.
    """
    most = round(plan.head.pods * _SPARE / _NODES)
    sandbox = Sandbox(
        new_directory(),
        CLUSTERS,
        f"kwok:{_NODES}",
        pods_per_node=max(110, most),
        replicas=2,
        audit=AUDIT,
        progress=progress,
    )
    async with lab_in(sandbox, progress) as lab:
        result = None
        try:
            await _prepare(lab, plan)
            result = await _Soak(lab, plan, note, patience).run()
            return result
        finally:
            if keep is not None and (always or result is None or result.violations):
                _keep(sandbox, keep)


class _Soak:
    def __init__(self, lab: Lab, plan: Plan, note: Note, patience: Patience) -> None:
        self._lab = lab
        self._plan = plan
        self._patience = patience
        self._found: list[Violation] = []
        self._began = time.monotonic()
        self._saboteur = Saboteur(lab.sandbox, self._told(note))
        self._users = workload.Users(lab.source, self._told(note))
        self._figures = Figures(lab.sandbox)

    def _told(self, note: Note) -> Note:
        return lambda text: note(f"{time.monotonic() - self._began:7.1f} s  {text}")

    async def run(self) -> Result:
        """Execute the plan, wait until all is well, delete the workloads, and judge."""
        self._began = time.monotonic()
        beside = [asyncio.ensure_future(self._saboteur.keep_alive()), asyncio.ensure_future(self._figures.run())]
        try:
            async with asyncio.timeout(self._plan.seconds + _LATE_SECONDS):
                await self._do_plan()
            well = await self._wait("not well", wanted(self._plan.steps))
            async with asyncio.timeout(_LATE_SECONDS):
                await self._users.wipe(self._plan)
            empty = await self._wait("something is left", {})
            living = await self._living()
        except TimeoutError:
            raise SoakError(f"API servers do not answer users, or do not start, {_LATE_SECONDS:.0f} s late") from None
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        return self._judged(well, empty, living)

    async def _do_plan(self) -> None:
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._saboteur.run(self._plan, began))
            group.create_task(self._users.run(self._plan, began))

    async def _wait(self, rule: str, steps: Mapping[str, Step]) -> float:
        """Return the seconds until all is as wanted; record a violation for each difference that remains."""
        began = since = time.time()
        found = ["nothing could be asked"]
        while found and time.time() < min(since, began + self._patience.well) + self._patience.well:
            try:
                source, targets = await self._listed()
                found = problems(source, targets, steps)
                since = max(since, last_made(source, steps))
            except KubeError as error:
                found = [str(error)]
            if found:
                await asyncio.sleep(_LOOK_SECONDS)
        taken = time.time() - began
        if found:
            self._found.append(
                Violation(f"{rule} after {self._patience.well:.0f} s", f"{len(found)} things", tuple(found))
            )
        return taken

    async def _listed(self) -> tuple[Listed, list[Listed]]:
        source, *targets = await asyncio.gather(*(_listed(client) for client in self._lab.clients.values()))
        return source, targets

    async def _living(self) -> frozenset[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for client in self._lab.clients.values():
            try:
                found |= {(client.name, pod["metadata"]["uid"]) for pod in await client.list(PODS)}
            except KubeError as error:
                raise SoakError(f"{client.name} cannot be asked which pods there are: {error}") from error
        return frozenset(found)

    def _judged(self, well: float, empty: float, living: frozenset[tuple[str, str]]) -> Result:
        history = History()
        for cluster in self._lab.sandbox.clusters:
            history.add(cluster.name, audit.read(cluster.directory))
        jobs = {step.name: step.pods for step in self._plan.steps if step.sort in ("Job", "Flop")}
        evidence = Evidence(SOURCE, history, self._saboteur.outages, living, jobs, self._patience.leaderless)
        ended = [Violation("a process of ours ended by itself", each) for each in self._saboteur.ended]
        return Result(
            plan=self._plan,
            violations=[*self._found, *ended, *judge(evidence)],
            well=well,
            empty=empty,
            outages=self._saboteur.outages,
            history=history,
            figures=self._figures,
            restarted=Counter(each.partition("\n")[0] for each in self._saboteur.ended),
        )


async def _prepare(lab: Lab, plan: Plan) -> None:
    if not lab.sandbox.plan.bridge:
        raise SoakError("links can only be cut where clusters have network namespaces: run it as root")
    await lab.sandbox.join()
    await asyncio.gather(*(workload.prepare(target, plan) for target in lab.targets))
    ready: Sequence[tuple[str, Callable[[], Awaitable[bool]]]] = (
        ("every target has a virtual node that takes pods", lambda: takes_pods(lab, len(lab.targets))),
        ("the webhook elects pods", lambda: elects(lab)),
    )
    for what, probe in ready:
        await until(what, probe)


async def _listed(client: Client) -> Listed:
    objects = {kind: await client.list(kind, NAMESPACE) for kind in IN_NAMESPACE}
    objects |= {kind: await client.list(kind) for kind in EVERYWHERE}
    objects[LEASES] = await client.list(LEASES, NODE_LEASE_NAMESPACE)
    return Listed(client.name, objects)


def _keep(sandbox: Sandbox, keep: Path) -> None:
    """Copy the logs of all clusters."""
    for cluster in sandbox.clusters:
        folder = keep / cluster.name
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in _KEPT:
            for path in cluster.directory.glob(pattern):
                shutil.copy(path, folder / path.name)
