"""The services benchmark: N Services for M elected pods; when does every cluster know every endpoint?"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, PODS, SERVICES
from agent.controllers.virtualnode.controller import FREE_SECONDS
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.runtime.supervisor import Supervisor
from agent.sandbox.manifests import NAMESPACE
from agent.sandbox.progress import Progress
from hack.benchmarks import counters, report
from hack.benchmarks.budgets import Budget
from hack.benchmarks.burst import CLUSTERS, NODES_EACH, elects, pods_per_node, takes_pods
from hack.benchmarks.errors import BenchError
from hack.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.benchmarks.manifests import APP, DEPLOYMENTS, deployment

SERVICES_ALL, PODS_ALL = 100, 1000
CREATED_AT_ONCE = 4
SHARED = ("services", "endpointslices", "ingresses", "secrets", "targets", "clustertargets")
"""What is written for shared Services."""
STALL_SECONDS = 90.0
SETTLE_SECONDS = FREE_SECONDS + 5.0
"""What is told of room in the targets is told that late."""
STEADY_SECONDS = 15.0
LIMIT_SECONDS = 5.0
"""The longest time from the last pod Ready until all slices are right."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Found:
    """What came of it."""

    ready: float
    """Seconds until the last proxy pod was seen Ready."""
    right: float
    """Seconds from then until all slices in all clusters were right."""
    work: Phase
    steady: Phase


@dataclass(frozen=True)
class ServiceLoad:
    """How many Services there are, and how many pods in all, the same number behind each Service."""

    services: int
    pods: int

    @property
    def each(self) -> int:
        """Pods behind a Service."""
        return self.pods // self.services


async def services(load: ServiceLoad, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """The report as lines and as figures. Raises BenchError, SandboxError or KubeError."""
    if not load.each:
        raise BenchError(f"{load.services} Services have no pod each if there are {load.pods}: take more --pods")
    async with open_lab(CLUSTERS, NODES_EACH, pods_per_node(load.pods), progress) as lab:
        await lab.sandbox.join()
        await until("every target has a virtual node that takes pods", lambda: takes_pods(lab, len(lab.targets)))
        await until("the webhook elects pods", lambda: elects(lab))
        found = await _measure(lab, load)
    budgets = [
        Budget("last pod Ready to all slices right", found.right, "most", LIMIT_SECONDS, "s"),
        Budget("writes in steady state, other than leases", counters.counted(found.steady.writes), "most", 0.0, ""),
    ]
    lines = [*_lines(found, load), *report.budget_lines(budgets), *report.disturbance([found.work, found.steady])]
    figures = {
        "benchmark": "services",
        "services": load.services,
        "pods": load.pods,
        "seconds_to_ready": found.ready,
        "seconds_from_ready_to_right": found.right,
        "cpu_seconds": found.work.cpu,
        "writes": found.work.writes,
        "writes_per_pod": counters.counted(found.work.writes) / load.pods,
        "shared_writes_per_pod": shared(found.work.writes) / load.pods,
        "steady_writes": found.steady.writes,
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


class Clusters:
    """What each cluster knows, by one watch each; every object is read once for each of its changes."""

    def __init__(self, lab: Lab) -> None:
        self._pods: dict[Key, tuple[str, str]] = {}
        self._told: dict[str, dict[Key, set[tuple[str, str]]]] = {name: {} for name in lab.clients}
        pods = Informer(lab.source, PODS, NAMESPACE, labels=APP)
        pods.subscribe(self._pod_changed)
        self.informers = [pods]
        for name, client in lab.clients.items():
            slices = Informer(client, ENDPOINT_SLICES, NAMESPACE, labels=f"{names.LABEL_SERVICE_NAME}!=kubernetes")
            slices.subscribe(partial(self._slice_changed, name))
            self.informers.append(slices)

    def ready(self) -> set[tuple[str, str]]:
        """Service and address of each pod that is ready."""
        return {pair for pair in self._pods.values() if pair[1]}

    def wrong(self, wanted: set[tuple[str, str]]) -> list[str]:
        """Clusters that do not know exactly these endpoints, with how many they miss or should have forgotten."""
        found = {name: {pair for pairs in slices.values() for pair in pairs} for name, slices in self._told.items()}
        return [
            f"{name} ({len(wanted - known)} missing, {len(known - wanted)} too many)"
            for name, known in found.items()
            if known != wanted
        ]

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._pods.pop(old.key if old else ("", ""), None)
        else:
            self._pods[new.key] = (new.labels[APP], pod_address(new.decode()))

    def _slice_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._told[cluster].pop(old.key if old else ("", ""), None)
        else:
            self._told[cluster][new.key] = told(new)


def pod_address(pod: Mapping[str, Any]) -> str:
    """The address of a pod that is ready, else nothing."""
    conditions = pod["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return str(pod["status"].get("podIP", "")) if ready else ""


def told(slice: Object) -> set[tuple[str, str]]:
    """Service and address of each ready endpoint."""
    name = slice.labels[names.LABEL_SERVICE_NAME]
    ready = (each for each in slice.decode().get("endpoints") or () if each["conditions"].get("ready"))
    return {(name, address) for endpoint in ready for address in endpoint["addresses"]}


def shared(writes: Mapping[str, float]) -> float:
    """Return the number of writes that were made for shared Services."""
    return sum(count for key, count in writes.items() if counters.resource(key) in SHARED)


async def _measure(lab: Lab, load: ServiceLoad) -> Found:
    clusters = Clusters(lab)
    async with Supervisor("bench") as supervisor:
        for informer in clusters.informers:
            supervisor.spawn(f"watch {informer.client.name} {informer.kind}", informer.run)
        before = await lab.sample()
        started = time.monotonic()
        slots = asyncio.Semaphore(CREATED_AT_ONCE)
        await asyncio.gather(*(_create(lab, slots, f"web-{number}", load.each) for number in range(load.services)))
        await _all_ready(clusters, load.services * load.each)
        ready = time.monotonic()
        while wrong := clusters.wrong(clusters.ready()):
            if time.monotonic() - ready > STALL_SECONDS:
                raise BenchError(f"slices are not right in {', '.join(wrong)}")
            await asyncio.sleep(_LOOK_SECONDS)
        right = time.monotonic()
        await asyncio.sleep(SETTLE_SECONDS)
        after = await lab.sample()
        await asyncio.sleep(STEADY_SECONDS)
        steady = phase(after, await lab.sample())
    return Found(ready - started, right - ready, phase(before, after), steady)


async def _create(lab: Lab, slots: asyncio.Semaphore, name: str, pods: int) -> None:
    spec = {"selector": {APP: name}, "ports": [{"port": 80}]}
    async with slots:
        await lab.source.create(SERVICES, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        await lab.source.create(DEPLOYMENTS, deployment(name, NAMESPACE, pods, elected=True))


async def _all_ready(clusters: Clusters, count: int) -> None:
    last, changed = -1, time.monotonic()
    while last < count:
        now = len(clusters.ready())
        if now != last:
            last, changed = now, time.monotonic()
        elif time.monotonic() - changed > STALL_SECONDS:
            raise BenchError(f"only {now} of {count} pods are ready, and nothing changes any more")
        await asyncio.sleep(_LOOK_SECONDS)


def _lines(found: Found, load: ServiceLoad) -> list[str]:
    totals = counters.by_resource(found.work.writes)
    rows = [[f"{load.services} Services, {load.pods} pods, {len(CLUSTERS)} clusters", ""]]
    rows += [
        ["last pod Ready after", f"{found.ready:.1f} s"],
        ["all slices right after another", f"{found.right:.2f} s"],
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
