"""Services benchmark: time until every cluster has every endpoint of N Services for M elected pods.

With `--against COMMIT` it is measured twice, first with the agents and webhooks of that commit.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.api.kinds import SERVICES
from agent.cli.progress import Progress
from agent.runtime.supervisor import Supervisor
from agent.targets.virtual_node.controller import FREE_SECONDS
from hack.lab.benchmarks import counters, report, trees
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.burst import CLUSTERS, NODES_EACH, elects, pods_per_node, takes_pods
from hack.lab.benchmarks.endpointtimes import EndpointTimes, watches
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.lab.benchmarks.manifests import APP, DEPLOYMENTS, deployment
from hack.lab.benchmarks.stats import Spread
from hack.lab.sandbox.manifests import NAMESPACE
from hack.lab.sandbox.objects import REPOSITORY

SERVICES_ALL, PODS_ALL = 100, 1000
CREATED_AT_ONCE = 4
SHARED = ("services", "endpointslices", "ingresses", "secrets", "targets", "clustertargets")
"""Resources that are written for shared Services."""
STALL_SECONDS = 90.0
SETTLE_SECONDS = FREE_SECONDS + 5.0
"""Seconds to wait before the measurement: virtual nodes show the free capacity of targets with this delay."""
STEADY_SECONDS = 15.0
LIMIT_SECONDS = 5.0
"""Limit in seconds from the last delegate Ready until all slices are right."""
THIS = "this commit"
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Found:
    """Results. Seconds from the first request that creates a Service, or from a delegate Ready."""

    ready: float
    """Seconds until the last delegate was Ready in its target."""
    right: float
    """Seconds from then until all slices in all clusters were right."""
    lags: Spread
    """By Service: seconds from its last delegate Ready until its slices in all clusters were right."""
    work: Phase
    steady: Phase


@dataclass(frozen=True)
class ServiceLoad:
    """Number of Services, and of all pods, evenly distributed over the Services."""

    services: int
    pods: int

    @property
    def each(self) -> int:
        """Pods behind a Service."""
        return self.pods // self.services


async def services(load: ServiceLoad, progress: Progress, against: str = "") -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.

    :param against: commit that is measured first; empty for none
    """
    if not load.each:
        raise BenchError(f"{load.services} Services have no pod each if there are {load.pods}: take more --pods")
    found = {}
    async with _sources(against) as sources:
        for name, folder in sources.items():
            async with open_lab(CLUSTERS, NODES_EACH, pods_per_node(load.pods), progress) as lab:
                await _begin(lab, folder)
                found[name] = await _measure(lab, load)
    budgets = _budgets(found, load, against)
    lines = [line for name, each in found.items() for line in _lines(name, each, load)]
    phases = [phase for each in found.values() for phase in (each.work, each.steady)]
    figures = {
        "benchmark": "services",
        "services": load.services,
        "pods": load.pods,
        **_figures(found[THIS], load),
        **({"against": {"commit": against, **_figures(found[against], load)}} if against else {}),
        "budgets": report.budget_figures(budgets),
    }
    return [*lines, *report.budget_lines(budgets), *report.disturbance(phases)], figures


@contextlib.asynccontextmanager
async def _sources(against: str) -> AsyncIterator[dict[str, Path]]:
    """Yield the folders of the measured code, by name, in the order of the measurements."""
    if not against:
        yield {THIS: REPOSITORY}
        return
    with tempfile.TemporaryDirectory(prefix="flotilla-bench-") as parent:
        folder = Path(parent) / "tree"
        if not await asyncio.to_thread(trees.checkout, folder, against):
            raise BenchError(f"the history of this repository does not go back to commit {against}")
        yield {against: folder, THIS: REPOSITORY}


async def _begin(lab: Lab, folder: Path) -> None:
    """Join the clusters, with agents and webhooks from the code in a folder."""
    if folder != REPOSITORY:
        for name in lab.names:
            await trees.run_from(lab.sandbox, name, folder)
    await lab.sandbox.join()
    await until("every target has a virtual node that takes pods", lambda: takes_pods(lab, len(lab.targets)))
    await until("the webhook elects pods", lambda: elects(lab))


def shared(writes: Mapping[str, float]) -> float:
    """Return the number of writes that were made for shared Services."""
    return sum(count for key, count in writes.items() if counters.resource(key) in SHARED)


async def _measure(lab: Lab, load: ServiceLoad) -> Found:
    times = EndpointTimes(lab.names)
    async with Supervisor("bench") as supervisor:
        informers = watches(lab, times)
        for informer in informers:
            supervisor.spawn(f"watch {informer.client.name} {informer.kind}", informer.run)
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        before = await lab.sample()
        started = time.monotonic()
        slots = asyncio.Semaphore(CREATED_AT_ONCE)
        await asyncio.gather(*(_create(lab, slots, f"web-{number}", load.each) for number in range(load.services)))
        await _all_right(times, load.services * load.each)
        await asyncio.sleep(SETTLE_SECONDS)
        after = await lab.sample()
        await asyncio.sleep(STEADY_SECONDS)
        steady = phase(after, await lab.sample())
    if wrong := times.wrong():
        raise BenchError(f"slices were right, and are not any more in {', '.join(wrong)}")
    right = max(0.0, times.last_right - times.last_ready)
    return Found(times.last_ready - started, right, Spread.of(times.lags), phase(before, after), steady)


async def _create(lab: Lab, slots: asyncio.Semaphore, name: str, pods: int) -> None:
    spec = {"selector": {APP: name}, "ports": [{"port": 80}]}
    async with slots:
        await lab.source.create(SERVICES, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        await lab.source.create(DEPLOYMENTS, deployment(name, NAMESPACE, pods, elected=True))


async def _all_right(times: EndpointTimes, count: int) -> None:
    """Wait until `count` delegates are Ready, and every cluster has exactly their endpoints."""
    last, changed = (-1, [""]), time.monotonic()
    while True:
        now = (times.ready, times.wrong())
        if now == (count, []):
            return
        if now != last:
            last, changed = now, time.monotonic()
        elif time.monotonic() - changed > STALL_SECONDS:
            raise BenchError(f"{now[0]} of {count} delegates are ready, slices are wrong in {', '.join(now[1])}")
        await asyncio.sleep(_LOOK_SECONDS)


def _budgets(found: Mapping[str, Found], load: ServiceLoad, against: str) -> list[Budget]:
    this = found[THIS]
    writes = shared(this.work.writes) / load.pods
    budgets = [
        Budget("last delegate Ready to all slices right", this.right, "most", LIMIT_SECONDS, "s"),
        Budget("writes in steady state, other than leases", counters.counted(this.steady.writes), "most", 0.0, ""),
    ]
    if against:
        before = found[against]
        budgets += [
            Budget(f"the same time of {against}", this.right, "most", before.right, "s"),
            Budget(f"p99 of a Service beside {against}", this.lags.p99, "most", before.lags.p99, "s"),
            Budget(f"writes per pod beside {against}", writes, "most", shared(before.work.writes) / load.pods, ""),
        ]
    return budgets


def _figures(found: Found, load: ServiceLoad) -> dict[str, Any]:
    return {
        "seconds_to_ready": found.ready,
        "seconds_from_ready_to_right": found.right,
        "seconds_from_ready_to_right_by_service": asdict(found.lags),
        "cpu_seconds": found.work.cpu,
        "writes": found.work.writes,
        "writes_per_pod": counters.counted(found.work.writes) / load.pods,
        "shared_writes_per_pod": shared(found.work.writes) / load.pods,
        "steady_writes": found.steady.writes,
    }


def _lines(name: str, found: Found, load: ServiceLoad) -> Sequence[str]:
    totals = counters.by_resource(found.work.writes)
    lags = found.lags
    rows = [[f"{name}: {load.services} Services, {load.pods} pods, {len(CLUSTERS)} clusters", ""]]
    rows += [
        ["last delegate Ready after", f"{found.ready:.1f} s"],
        ["all slices right after another", f"{found.right:.2f} s"],
        ["for each Service: p50, p99, longest", f"{lags.p50:.2f} s, {lags.p99:.2f} s, {lags.longest:.2f} s"],
        ["writes per pod", f"{counters.counted(found.work.writes) / load.pods:.2f}"],
        ["writes for shared Services, per pod", f"{shared(found.work.writes) / load.pods:.2f}"],
    ]
    for key, count in sorted(totals.items()):
        if counters.resource(key) in SHARED:
            rows.append([f"{key}, per Service", f"{count / load.services:.2f}"])
    for key, count in sorted(counters.by_resource(found.steady.writes).items()):
        rows.append([f"{key}, in {found.steady.seconds:.0f} s of steady state", f"{count:.0f}"])
    rows += [[f"CPU of {key}", f"{found.work.cpu[key]:.1f} s"] for key in sorted(found.work.cpu) if "agent" in key]
    return ["", *report.table(rows)]
