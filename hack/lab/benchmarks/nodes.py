"""Nodes benchmark: memory of the agent of a target with thousands of nodes, and how soon it publishes a change."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

from agent.api.kinds import CLUSTER_SUMMARIES, LEASES, NODES
from agent.api.names import SUMMARY_NAME
from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.model.nodeshapes import read_shapes
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import report
from hack.lab.benchmarks.budgets import nodes_budgets
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, open_lab, phase, until
from hack.lab.benchmarks.latency import Sightings
from hack.lab.benchmarks.run import REST_SECONDS
from hack.lab.benchmarks.stats import Spread

CLUSTERS = ("cd", "us")
NODES_ALL = 5000
TRIES = 20
_AT_ONCE = 16
_PATIENCE_SECONDS = 300.0
"""Timeout in seconds. A new node has a taint until the controller manager has observed that it is ready."""
_PAUSE_SECONDS = 1.5
"""Seconds between changes, more than the 1 s that limits how often an agent writes its summary."""
_LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_ROUND_SECONDS = 20.0
"""Seconds in which every node renews its lease once."""
_ROUND = re.compile(rb"round-\d+")
_AMOUNTS = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}


async def nodes(count: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    async with open_lab(CLUSTERS, 3, 110, progress) as lab:
        await lab.sandbox.join()
        target, agent = lab.targets[0], f"{CLUSTERS[1]}/agent"
        await until("the target has a summary", lambda: _tells(target, 3))
        few = await lab.sample()
        async with _kubelets(lab, target, count):
            await until("all nodes are told of", lambda: _tells(target, count + 3), _PATIENCE_SECONDS)
            before = await lab.sample()
            times = await _changes(lab, target)
            told = phase(before, await lab.sample())
            await asyncio.sleep(REST_SECONDS)
            many = await lab.sample()
    grown = many.usage[agent].rss - few.usage[agent].rss
    spread = Spread.of(times)
    budgets = nodes_budgets(count, many.usage[agent], spread)
    lines = [
        *_lines(count, told, spread, grown / count, agent),
        *report.budget_lines(budgets),
        *report.disturbance([told]),
    ]
    figures = {
        "benchmark": "nodes",
        "nodes": count,
        "changes": len(times),
        "cpu_seconds": told.cpu[agent],
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


def _lines(count: int, told: Phase, spread: Spread, kib: float, agent: str) -> list[str]:
    rows = [[f"a target with {count:,} nodes", "p50", "p99", "longest"]]
    times = (spread.p50, spread.p99, spread.longest)
    rows.append(["a node's taint until the summary tells it", *(f"{value * 1000:.0f} ms" for value in times)])
    notes = (
        f"CPU of {agent} for {TRIES} changes: {told.cpu[agent]:.2f} s in {told.seconds:.0f} s",
        f"memory of {agent} grew by {kib:.1f} KiB with each node",
    )
    return ["", *report.table(rows), *(f"  {note}" for note in notes)]


async def _tells(target: Client, count: int) -> bool:
    """Return whether the summary contains `count` nodes that accept pods."""
    summary = await target.get(CLUSTER_SUMMARIES, SUMMARY_NAME)
    return (
        sum(shape.count for shape in read_shapes(summary["metadata"].get("annotations")) if not shape.taints) == count
    )


async def _changes(lab: Lab, target: Client) -> list[float]:
    """Return the seconds from each change of a node until the summary contains it."""
    sightings = Sightings(target, None, SUMMARY_NAME, CLUSTER_SUMMARIES, _rounds)
    times = []
    async with Supervisor("bench") as supervisor:
        supervisor.spawn("watch", sightings.informer.run)
        await sightings.informer.synced.wait()
        for number in range(TRIES):
            taint = {"key": "bench.example/round", "value": f"round-{number}", "effect": "NoSchedule"}
            began = time.monotonic()
            await target.patch_raw(NODES, _name(number), {"spec": {"taints": [taint]}})
            try:
                times.append(await sightings.of(f"round-{number}") - began)
            except TimeoutError:
                raise BenchError(f"a taint of node {_name(number)} did not reach the summary within 10 s") from None
            await asyncio.sleep(_PAUSE_SECONDS)
    return times


def _rounds(raw: bytes) -> Iterable[str]:
    return (found.decode() for found in _ROUND.findall(raw))


@contextlib.asynccontextmanager
async def _kubelets(lab: Lab, target: Client, count: int) -> AsyncIterator[None]:
    """Create nodes, and renew their leases as kubelets do, while the context lasts."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def register(number: int) -> None:
        async with slots:
            await target.create(NODES, _node(number))
            await target.create(LEASES, _lease(number))

    async with asyncio.timeout(600), asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(register(number))
    renewals = asyncio.create_task(_renew(target, count))
    try:
        yield
    finally:
        renewals.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewals


async def _renew(target: Client, count: int) -> None:
    for number in cycle(range(count)):
        started = time.monotonic()
        renewed = {"spec": {"renewTime": _now()}}
        await target.patch_raw(LEASES, _name(number), renewed, _LEASE_NAMESPACE)
        await asyncio.sleep(max(0.0, _ROUND_SECONDS / count - (time.monotonic() - started)))


def _name(number: int) -> str:
    return f"fake-{number:05d}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _node(number: int) -> dict[str, Any]:
    name, address = _name(number), f"10.{64 + number // 256}.{number % 256}.0/24"
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
    }
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": address, "podCIDRs": [address]},
        "status": {"capacity": _AMOUNTS, "allocatable": _AMOUNTS, "conditions": [ready]},
    }


def _lease(number: int) -> dict[str, Any]:
    name = _name(number)
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.name,
        "metadata": {"name": name, "namespace": _LEASE_NAMESPACE},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": _now()},
    }
