"""Promise 56: a hostile source and a hostile target together at most halve the rate at which other pods start.

The target sends as much as a link of 100 Mbit/s carries, and the agent reads as much as its limits permit. The
other attacks run a few times per second. Each costs an API server more than Flotilla's agents, and API servers
have limits of their own.

Pods start as fast as possible, which uses all of a small machine. Unlike in production, agents and webhooks
share it with API servers, etcd and the attackers, whose work lowers the rate, too. On a busy machine agents
wait long for a processor, so no other test runs at the same time."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from agent.api.kinds import NAMESPACES, PODS, SECRETS, TARGETS
from agent.api.names import FORCE_REMOVE, SHORT_PREFIX
from agent.model.quantity import Quantity
from hack.lab.benchmarks import procfs
from tests.chart import helm
from tests.e2e import manifests
from tests.e2e.attacks import EXPECTED, Attacks
from tests.e2e.fleet import Fleet
from tests.e2e.hostile import Hostile

USUAL_SECONDS, HOSTILE_SECONDS = 20.0, 60.0
BATCH = 10
BANDWIDTH = 100e6 / 8
CONCERNED = (("cd", "agent"), ("cd", "webhook"), ("us", "agent"))
TOLD = {
    *("events", "summaries", "resourcequotas", "configmaps", "secrets", "leases", "version"),
    *("watch podchaperons", "watch clustersummaries", "watch resourcequotas"),
}
"""Requests to the hostile target that it has to answer, each with data that no API server sends."""


async def rate(fleet: Fleet, namespace: str, seconds: float) -> float:
    """Return the pods that start per second. Pods of the previous batch are deleted during the next one."""
    began, count = time.monotonic(), 0
    while (took := time.monotonic() - began) < seconds:
        app = f"batch-{began:.0f}-{count}"
        pods = [manifests.pod(f"{app}-{number}") for number in range(BATCH)]
        for pod in pods:
            pod["metadata"]["labels"]["app"] = app
        await asyncio.gather(*(fleet.source.create(PODS, pod, namespace) for pod in pods))
        await fleet.running(namespace, app, BATCH)
        count += BATCH
        await asyncio.gather(*(fleet.source.delete(PODS, pod["metadata"]["name"], namespace) for pod in pods))
    return count / took


class Costs:
    """CPU seconds and peak memory in KiB of agents and webhooks since this object was created."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._pids = self._find()
        for pid in self._pids.values():
            # Writing 5 resets the peak of resident memory (proc(5)), so `peak` covers only the time from now
            # on.
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = self._look()
        self._machine = procfs.machine()

    def __str__(self) -> str:
        told = [
            f"{program} of {cluster} {used.cpu - self._before[cluster, program].cpu:.1f} s, {used.peak >> 10} MiB"
            for (cluster, program), used in self._look().items()
        ]
        return f"{', '.join(told)}; the machine {procfs.machine() - self._machine:.1f} s"

    def memory(self) -> dict[tuple[str, str], int]:
        """Return the peak memory in KiB of each process. Fails if a process has been restarted."""
        assert self._find() == self._pids, "somebody has been started again"
        return {each: used.peak for each, used in self._look().items()}

    def _look(self) -> dict[tuple[str, str], procfs.Usage]:
        return {each: procfs.usage(pid) for each, pid in self._pids.items()}

    def _find(self) -> dict[tuple[str, str], int]:
        found = {(cluster, program): self._fleet.sandbox[cluster].pid(program) for cluster, program in CONCERNED}
        assert None not in found.values(), f"somebody does not run: {found}"
        return {each: pid for each, pid in found.items() if pid is not None}


def limits() -> dict[str, int]:
    """Return the chart's memory limits in bytes for an agent and a webhook."""
    values = yaml.safe_load((helm.CHART / "values.yaml").read_text())
    return {name: Quantity.of(values[name]["resources"]["limits"]["memory"]).value for name in ("agent", "webhook")}


@contextlib.asynccontextmanager
async def hostile_target(fleet: Fleet, namespace: str) -> AsyncIterator[Hostile]:
    """Create a Target whose API server is a hostile program, and remove it at the end."""
    gateway = fleet.sandbox.plan.host_address
    owner = (await fleet.source.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    async with Hostile.started(gateway, namespace, BANDWIDTH, owner) as hostile:
        await fleet.source.create(SECRETS, manifests.secret("hostile", namespace, hostile.kubeconfig))
        spec = {"kubeconfigSecret": {"name": "hostile"}}
        await fleet.source.create(TARGETS, manifests.ours("Target", "hostile", namespace, spec))
        try:
            yield hostile
        finally:
            forced = {"metadata": {"annotations": {SHORT_PREFIX + FORCE_REMOVE: "true"}}}
            await fleet.source.patch(TARGETS, "hostile", forced, namespace)
            await fleet.source.delete(TARGETS, "hostile", namespace)
            await fleet.gone(TARGETS, "hostile", namespace)


async def _all(told: Counter[str], expected: set[str]) -> bool:
    return told.keys() >= expected


@pytest.mark.alone
@pytest.mark.seldom
@pytest.mark.timeout(480)
async def test_a_hostile_source_and_a_hostile_target_leave_others_half_their_pods_a_second(fleet: Fleet) -> None:
    async with (
        fleet.namespace(("us",)) as honest,
        fleet.namespace(("eu",)) as theirs,
        Attacks.ready(fleet, theirs) as attacks,
    ):
        costs = Costs(fleet)
        usual = await rate(fleet, honest, USUAL_SECONDS)
        print(f"usual: {usual:.1f} pods a second; {costs}")
        async with hostile_target(fleet, theirs) as hostile, attacks.under_way():
            costs = Costs(fleet)
            attacked = await rate(fleet, honest, HOSTILE_SECONDS)
            memory = costs.memory()
            print(f"attacked: {attacked:.1f} pods a second; {costs}; {dict(attacks.told)}")
            await fleet.until("annotations that are too large are at home", attacks.too_large, about=theirs)
            await fleet.until("every attack is answered", lambda: _all(attacks.told, EXPECTED), about=theirs)
            await fleet.until("the target is asked for everything", lambda: _all(hostile.told, TOLD), about=theirs)
        assert attacked >= usual / 2
        for (_, program), kib in memory.items():
            assert kib * 1024 < limits()[program]
