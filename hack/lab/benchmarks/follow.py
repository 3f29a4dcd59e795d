"""Follow benchmark: elected pods that each need a ConfigMap and a Secret, compared with pods without them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import CONFIGMAPS, PODS, SECRETS
from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import counters, report, stats
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.burst import CLUSTERS, NODES_EACH, pods_per_node, prepare
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.lab.benchmarks.latency import PAUSE_SECONDS, TRIES, Sightings
from hack.lab.benchmarks.manifests import follower
from hack.lab.benchmarks.pods import PodTimes
from hack.lab.benchmarks.run import SETTLE_SECONDS, STALL_SECONDS
from hack.lab.sandbox.manifests import NAMESPACE

FOLLOWED = 500
KINDS = (CONFIGMAPS, SECRETS)
AT_ONCE = 16
"""Number of simultaneous requests of the benchmark itself."""
_RESOURCES = frozenset(kind.plural for kind in KINDS)
_GONE_SECONDS = 120.0
_ALONE = "alone"
_OWN = "own"


@dataclass(frozen=True)
class Run:
    """Results of one burst. `seconds` count from the first request to the last pod observed as Running."""

    pods: int
    seconds: float
    start: stats.Spread
    creation: Phase
    deletion: Phase

    @property
    def rate(self) -> float:
        """Pods per second to Running."""
        return self.pods / self.seconds

    @property
    def writes(self) -> float:
        """Number of writes to ConfigMaps and Secrets during creation and deletion."""
        return written(self.creation) + written(self.deletion)


async def follow(pods: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    async with open_lab(CLUSTERS, NODES_EACH, pods_per_node(pods), progress) as lab:
        await prepare(lab)
        alone = await _burst(lab, _ALONE, pods, own=False)
        own = await _burst(lab, _OWN, pods, own=True)
        change = await _changes(lab)
    budgets = [
        Budget("pods/s to Running, with / without", own.rate / alone.rate, "least", 0.5, ""),
        Budget("API writes per followed object", own.writes / (len(KINDS) * pods), "most", 2.0, ""),
        Budget("change to copy p99, idle", change.p99 * 1000, "most", 500.0, "ms"),
    ]
    note = "" if pods == FOLLOWED else f"the budgets are meant for {FOLLOWED} pods, this was {pods}"
    lines = [
        *_lines(alone, own, change),
        *report.budget_lines(budgets, note),
        *report.disturbance((alone.creation, own.creation)),
    ]
    figures = {
        "benchmark": "follow",
        "pods": pods,
        "without": {"pods_per_second": alone.rate, **asdict(alone)},
        "with": {"pods_per_second": own.rate, **asdict(own)},
        "change_to_copy": asdict(change),
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


def written(phase: Phase) -> float:
    """Return the number of writes to ConfigMaps and Secrets."""
    return sum(count for key, count in phase.writes.items() if counters.resource(key) in _RESOURCES)


async def _burst(lab: Lab, app: str, pods: int, *, own: bool) -> Run:
    if own:
        await _each(pods, lambda number: _create_own(lab.source, f"{app}-{number}"))
        await asyncio.sleep(SETTLE_SECONDS)
    before = await lab.sample()
    times = PodTimes(lab.source, NAMESPACE, app)
    async with Supervisor("bench") as supervisor:
        supervisor.spawn("pods", times.informer.run)
        await times.informer.synced.wait()
        began = times.last_change = time.monotonic()
        await _each(pods, lambda number: lab.source.create(PODS, follower(app, number, NAMESPACE, own=own)))
        await _all_running(times, pods)
        seconds = max(times.running.values()) - began
        await asyncio.sleep(SETTLE_SECONDS)
        created = await lab.sample()
        if own and (copies := await _copies(lab)) != len(KINDS) * pods:
            raise BenchError(f"{pods} pods are Running, but the targets hold {copies} copies of what they need")
        await _each(pods, lambda number: lab.source.delete(PODS, f"{app}-{number}", NAMESPACE))
        if own:
            await _each(pods, lambda number: _delete_own(lab.source, f"{app}-{number}"))
        await until("the pods are gone", lambda: _is(times.left == 0), _GONE_SECONDS)
        await until("no copy is left", lambda: _no_copies(lab), _GONE_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
    deleted = await lab.sample()
    return Run(pods, seconds, stats.Spread.of(times.latencies), phase(before, created), phase(created, deleted))


async def _each(count: int, work: Callable[[int], Awaitable[object]]) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with slots:
            await work(number)

    await asyncio.gather(*map(one, range(count)))


async def _create_own(source: Client, name: str) -> None:
    metadata = {"name": name, "namespace": NAMESPACE}
    await source.create(CONFIGMAPS, {"metadata": metadata, "data": {"KEY": name}})
    await source.create(SECRETS, {"metadata": metadata, "stringData": {"key": name}})


async def _delete_own(source: Client, name: str) -> None:
    for kind in KINDS:
        await source.delete(kind, name, NAMESPACE)


async def _all_running(times: PodTimes, pods: int) -> None:
    while len(times.running) < pods:
        if time.monotonic() - times.last_change > STALL_SECONDS:
            raise BenchError(f"{len(times.running)} of {pods} pods are Running, and nothing moves any more")
        await asyncio.sleep(0.05)


async def _copies(lab: Lab) -> int:
    lists = [
        await target.list_raw(kind, NAMESPACE, labels=names.LABEL_PARENT_CLUSTER_UID)
        for target in lab.targets
        for kind in KINDS
    ]
    return sum(len(items) for _, items in lists)


async def _no_copies(lab: Lab) -> bool:
    return not await _copies(lab)


async def _is(value: bool) -> bool:
    return value


class _Data(msgspec.Struct):
    data: dict[str, str] | None = None


def _rounds(raw: bytes) -> Iterable[str]:
    return (msgspec.json.decode(raw, type=_Data).data or {}).values()


async def _changes(lab: Lab) -> stats.Spread:
    """Return the seconds from a change of a ConfigMap until its copy has it. Raises BenchError after a timeout."""
    name = f"{_OWN}-0"
    await _create_own(lab.source, name)
    await lab.source.create(PODS, follower(_OWN, 0, NAMESPACE, own=True))
    target = await _holder(lab, name)
    sightings = Sightings(target, NAMESPACE, name, CONFIGMAPS, _rounds)
    found = []
    async with Supervisor("bench") as supervisor:
        supervisor.spawn("watch", sightings.informer.run)
        await sightings.informer.synced.wait()
        for number in range(TRIES):
            round_ = f"round {number}"
            await asyncio.sleep(PAUSE_SECONDS)
            began = time.monotonic()
            await lab.source.patch_raw(CONFIGMAPS, name, {"data": {"KEY": round_}}, NAMESPACE)
            try:
                found.append(await sightings.of(round_) - began)
            except TimeoutError:
                raise BenchError(f"a change of ConfigMap {name} did not reach its copy in {target.name}") from None
    await lab.source.delete(PODS, name, NAMESPACE)
    await _delete_own(lab.source, name)
    return stats.Spread.of(found)


async def _holder(lab: Lab, name: str) -> Client:
    """Wait until a pod runs, and return the target with the copy of its ConfigMap."""

    async def runs() -> bool:
        return bool((await lab.source.get(PODS, name, NAMESPACE))["status"].get("phase") == "Running")

    await until("the pod for the changes runs", runs)
    for target in lab.targets:
        if await target.list(CONFIGMAPS, NAMESPACE, fields=f"metadata.name={name}"):
            return target
    raise BenchError(f"pod {name} is Running, but no target has its ConfigMap")


def _lines(alone: Run, own: Run, change: stats.Spread) -> list[str]:
    rows = [[f"{own.pods} pods over {len(CLUSTERS) - 1} targets", "without", "each with its own", "ratio"]]
    for name, first, second, unit in (
        ("pods/s to Running", alone.rate, own.rate, ""),
        ("creation to Running p50", alone.start.p50, own.start.p50, " s"),
        ("creation to Running p99", alone.start.p99, own.start.p99, " s"),
    ):
        rows.append([name, f"{first:.2f}{unit}", f"{second:.2f}{unit}", f"{second / first:.2f} x"])
    objects = len(KINDS) * own.pods
    create, delete = (counters.by_resource(found.writes) for found in (own.creation, own.deletion))
    writes = [["API writes per followed object", "create", "delete"]]
    writes += [
        [key, *(f"{found.get(key, 0.0) / objects:.3f}" for found in (create, delete))]
        for key in sorted(create.keys() | delete.keys())
        if counters.resource(key) in _RESOURCES
    ]
    times = [[f"change to copy, idle ({TRIES} tries)", "p50", "p99", "longest"]]
    times.append(["", *(f"{value * 1000:.1f} ms" for value in (change.p50, change.p99, change.longest))])
    return ["", *report.table(rows), "", *report.table(writes), "", *report.table(times)]
