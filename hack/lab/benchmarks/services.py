"""Services benchmark: time until every cluster has every endpoint of N Services for M elected pods.

With `--against COMMIT` the agents and webhooks of that commit are measured, too. Rounds alternate the order, so that
the second of both has no advantage. Each measurement has clusters of its own.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.api.kinds import CHAPERONS, ENDPOINT_SLICES, PODS, SERVICES, Kind
from agent.api.names import LABEL_SERVICE_NAME, PREFIX
from agent.cli.progress import Progress
from agent.kube.errors import Conflict, Unreachable
from agent.runtime.supervisor import Supervisor
from agent.targets.virtual_node.controller import FREE_SECONDS
from hack.lab.benchmarks import counters, report, stats, trees
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.burst import CLUSTERS, NODES_EACH, elects, pods_per_node, takes_pods
from hack.lab.benchmarks.endpointtimes import STEPS, EndpointTimes, watches
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.lab.benchmarks.manifests import APP, DEPLOYMENTS, deployment
from hack.lab.benchmarks.servicerounds import Found, Rounds
from hack.lab.benchmarks.stats import Spread
from hack.lab.sandbox.manifests import NAMESPACE
from hack.lab.sandbox.objects import REPOSITORY

SERVICES_ALL, PODS_ALL = 100, 1000
CREATED_AT_ONCE = 4
SHARED = ("services", "endpointslices", "ingresses", "secrets", "targets", "clustertargets")
"""Resources that are written for shared Services."""
ROUTING = ("services", "endpoints", "endpointslices")
"""Resources of a Service that agents and Kubernetes' own controllers write."""
STALL_SECONDS = 90.0
SETTLE_SECONDS = FREE_SECONDS + 5.0
"""Seconds to wait before the measurement: virtual nodes show the free capacity of targets with this delay."""
STEADY_SECONDS = 15.0
LIMIT_SECONDS = 5.0
"""Limit in seconds from the last delegate Ready until all slices are right."""
THIS = "this commit"
_LOOK_SECONDS = 0.1
_READY_SECONDS = 180.0
"""Seconds within which joined clusters take pods, and a warm-up is deleted, also on a busy machine."""


@dataclass(frozen=True)
class ServiceLoad:
    """Number of Services, and of all pods, evenly distributed over the Services."""

    services: int
    pods: int
    rounds: int = 1
    """Number of measurements of each tree."""

    @property
    def each(self) -> int:
        """Pods behind a Service."""
        return self.pods // self.services


WARM_UP = ServiceLoad(4, 20)
"""Load before each measurement: it sets up connections, certificates and caches."""


async def services(load: ServiceLoad, progress: Progress, against: str = "") -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.

    :param against: commit that is measured, too; empty for none
    """
    if not load.each:
        raise BenchError(f"{load.services} Services have no pod each if there are {load.pods}: take more --pods")
    found: dict[str, list[Found]] = {}
    async with _sources(against) as sources:
        for name in order(list(sources), load.rounds):
            async with open_lab(CLUSTERS, NODES_EACH, pods_per_node(load.pods), progress) as lab:
                await _begin(lab, sources[name])
                found.setdefault(name, []).append(await _measure(lab, load))
    rounds = {name: Rounds(each) for name, each in found.items()}
    return _report(rounds, load, against)


def order(names: Sequence[str], rounds: int) -> list[str]:
    """Return the order of the measurements: every second round is reversed. Pure."""
    return [name for number in range(rounds) for name in (reversed(names) if number % 2 else names)]


def _report(rounds: Mapping[str, Rounds], load: ServiceLoad, against: str) -> tuple[list[str], dict[str, Any]]:
    budgets = _budgets(rounds, load, against)
    lines = [line for name, each in rounds.items() for line in _lines(name, each, load)]
    phases = [phase for each in rounds.values() for found in each.found for phase in (found.work, found.steady)]
    figures = {
        "benchmark": "services",
        "services": load.services,
        "pods": load.pods,
        **_figures(rounds[THIS], load),
        **({"against": {"commit": against, **_figures(rounds[against], load)}} if against else {}),
        "budgets": report.budget_figures(budgets),
    }
    return [*lines, *report.budget_lines(budgets), *report.disturbance(phases)], figures


@contextlib.asynccontextmanager
async def _sources(against: str) -> AsyncIterator[dict[str, Path]]:
    """Yield the folders of the measured code, by name."""
    if not against:
        yield {THIS: REPOSITORY}
        return
    with tempfile.TemporaryDirectory(prefix="flotilla-bench-") as parent:
        folder = Path(parent) / "tree"
        if not await asyncio.to_thread(trees.checkout, folder, against):
            raise BenchError(f"the history of this repository does not go back to commit {against}")
        yield {against: folder, THIS: REPOSITORY}


async def _begin(lab: Lab, folder: Path) -> None:
    """Join the clusters, with agents and webhooks from the code in a folder, and run some pods as a warm-up."""
    if folder != REPOSITORY:
        for name in lab.names:
            await trees.run_from(lab.sandbox, name, folder)
    await lab.sandbox.join()
    await until(
        "every target has a virtual node that takes pods", lambda: takes_pods(lab, len(lab.targets)), _READY_SECONDS
    )
    await until("the webhook elects pods", lambda: elects(lab), _READY_SECONDS)
    async with _recorded(lab) as times:
        await _create_all(lab, WARM_UP, "warm-up")
        await _all_right(times, WARM_UP.services * WARM_UP.each)
    for number in range(WARM_UP.services):
        name = f"warm-up-{number}"
        await lab.source.delete(SERVICES, name, NAMESPACE)
        await lab.source.delete(DEPLOYMENTS, name, NAMESPACE, propagation="Background")
    await until("the warm-up is deleted", lambda: _is_empty(lab), _READY_SECONDS)


async def _is_empty(lab: Lab) -> bool:
    asked = [(lab.source, PODS, APP)]
    for target in lab.targets:
        asked += [(target, PODS, PREFIX + APP), (target, CHAPERONS, "")]
    asked += [(client, ENDPOINT_SLICES, f"{LABEL_SERVICE_NAME}!=kubernetes") for client in lab.clients.values()]
    return not any([(await client.list_raw(kind, NAMESPACE, labels=labels))[1] for client, kind, labels in asked])


def shared(writes: Mapping[str, float]) -> float:
    """Return the number of writes that were made for shared Services."""
    return sum(count for key, count in writes.items() if counters.resource(key) in SHARED)


@contextlib.asynccontextmanager
async def _recorded(lab: Lab) -> AsyncIterator[EndpointTimes]:
    """Yield the times of endpoints, which are recorded within this context."""
    times = EndpointTimes(lab.names)
    async with Supervisor("bench") as supervisor:
        informers = watches(lab, times)
        for informer in informers:
            supervisor.spawn(f"watch {informer.client.name} {informer.kind}", informer.run)
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        yield times


async def _measure(lab: Lab, load: ServiceLoad) -> Found:
    async with _recorded(lab) as times:
        before, stored = await lab.sample(), await _stored(lab)
        started = time.monotonic()
        await _create_all(lab, load, "web")
        await _all_right(times, load.services * load.each)
        await asyncio.sleep(SETTLE_SECONDS)
        after, stored = await lab.sample(), stats.grown(stored, await _stored(lab))
        await asyncio.sleep(STEADY_SECONDS)
        steady = phase(after, await lab.sample())
    if wrong := times.wrong():
        raise BenchError(f"slices were right, and are not any more in {', '.join(wrong)}")
    return Found(
        ready=times.last_ready - started,
        right=max(0.0, times.last_right - times.last_ready),
        lags=times.lags,
        steps={place: times.lags_of(place) for place in (*STEPS, *lab.names)},
        work=phase(before, after),
        stored=stored,
        steady=steady,
    )


async def _stored(lab: Lab) -> dict[str, float]:
    """Return the number of writes that all API servers have accepted, by resource."""
    total: dict[str, float] = {}
    for client in lab.clients.values():
        exposition = (await client.session.request("GET", "/metrics")).decode()
        for resource, count in counters.accepted(exposition).items():
            total[resource] = total.get(resource, 0.0) + count
    return total


async def _create_all(lab: Lab, load: ServiceLoad, prefix: str) -> None:
    slots = asyncio.Semaphore(CREATED_AT_ONCE)
    await asyncio.gather(*(_create(lab, slots, f"{prefix}-{number}", load.each) for number in range(load.services)))


async def _create(lab: Lab, slots: asyncio.Semaphore, name: str, pods: int) -> None:
    spec = {"selector": {APP: name}, "ports": [{"port": 80}]}
    async with slots:
        await _create_one(lab, SERVICES, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        await _create_one(lab, DEPLOYMENTS, deployment(name, NAMESPACE, pods, elected=True))


async def _create_one(lab: Lab, kind: Kind, manifest: dict[str, Any]) -> None:
    """Create an object, once more if the API server does not answer in time."""
    try:
        await lab.source.create(kind, manifest)
    except Unreachable:
        with contextlib.suppress(Conflict):
            await lab.source.create(kind, manifest)


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


def _budgets(rounds: Mapping[str, Rounds], load: ServiceLoad, against: str) -> list[Budget]:
    this = rounds[THIS]
    budgets = [
        Budget("last delegate Ready to all slices right", this.right, "most", LIMIT_SECONDS, "s"),
        Budget("writes in steady state, other than leases", counters.counted(this.steady), "most", 0.0, ""),
    ]
    if against:
        before = rounds[against]
        budgets += [
            Budget(f"the same time of {against}", this.right, "most", before.right, "s"),
            Budget(f"p50 of a Service beside {against}", this.lags.p50, "most", before.lags.p50, "s"),
            Budget(f"p99 of a Service beside {against}", this.lags.p99, "most", before.lags.p99, "s"),
        ]
        for name, each, limit in (
            ("writes per pod for Services", shared(this.writes), shared(before.writes)),
            ("writes per pod", counters.counted(this.writes), counters.counted(before.writes)),
        ):
            budgets.append(Budget(f"{name} beside {against}", each / load.pods, "most", limit / load.pods, ""))
    return budgets


def _figures(rounds: Rounds, load: ServiceLoad) -> dict[str, Any]:
    return {
        "seconds_to_ready": rounds.ready,
        "seconds_from_ready_to_right": rounds.right,
        "rounds_from_ready_to_right": [each.right for each in rounds.found],
        "seconds_from_ready_to_right_by_service": asdict(rounds.lags),
        "seconds_from_ready_by_step": {name: asdict(spread) for name, spread in rounds.steps.items()},
        "cpu_seconds": rounds.cpu,
        "writes": rounds.writes,
        "writes_per_pod": counters.counted(rounds.writes) / load.pods,
        "shared_writes_per_pod": shared(rounds.writes) / load.pods,
        "writes_of_all_programs": rounds.stored,
        "steady_writes": rounds.steady,
    }


def _lines(name: str, rounds: Rounds, load: ServiceLoad) -> Sequence[str]:
    lags, count = rounds.lags, len(rounds.found)
    rows = [[f"{name}: {load.services} Services, {load.pods} pods, {len(CLUSTERS)} clusters, rounds: {count}", ""]]
    rows += [
        ["last delegate Ready after", f"{rounds.ready:.1f} s"],
        ["all slices right after another", f"{rounds.right:.2f} s"],
        *([["  in each round", ", ".join(f"{each.right:.2f} s" for each in rounds.found)]] if count > 1 else []),
        ["for each Service: p50, p99, longest", _times(lags)],
        *([f"  {place}", _times(spread)] for place, spread in rounds.steps.items()),
        ["writes per pod", f"{counters.counted(rounds.writes) / load.pods:.2f}"],
        ["writes for shared Services, per pod", f"{shared(rounds.writes) / load.pods:.2f}"],
    ]
    for key, total in sorted(counters.by_resource(rounds.writes).items()):
        if counters.resource(key) in SHARED:
            rows.append([f"{key}, per Service", f"{total / load.services:.2f}"])
    for resource in ROUTING:
        rows.append([f"{resource} of all programs, per pod", f"{rounds.stored.get(resource, 0.0) / load.pods:.2f}"])
    for key, total in sorted(counters.by_resource(rounds.steady).items()):
        rows.append([f"{key}, in {STEADY_SECONDS:.0f} s of steady state", f"{total:.0f}"])
    rows += [[f"CPU of {key}", f"{seconds:.1f} s"] for key, seconds in rounds.cpu.items()]
    rows.append(["CPU of other programs, of the machine", ", ".join(_disturbed(each.work) for each in rounds.found)])
    return ["", *report.table(rows)]


def _times(spread: Spread) -> str:
    return f"{spread.p50:.2f} s, {spread.p99:.2f} s, {spread.longest:.2f} s"


def _disturbed(phase: Phase) -> str:
    return f"{report.disturbed([phase]) * 100:.0f} %"
