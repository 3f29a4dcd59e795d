"""Long run of many pods over many targets without faults: memory stays flat, queues empty, statuses are copied back."""

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.api.kinds import PODS
from agent.api.names import ENABLED_VALUE, LABEL_ENABLED, SCHEDULER_PROXY, chaperon
from agent.cli.progress import Progress
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.store import Object
from hack.lab.benchmarks import counters, stats
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.burst import takes_pods
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.joining import join
from hack.lab.benchmarks.lab import Lab, lab_in, new_directory, until
from hack.lab.benchmarks.latency import CONDITION, conditions
from hack.lab.benchmarks.manifests import APP, DEPLOYMENTS, deployment
from hack.lab.benchmarks.run import STALL_SECONDS
from hack.lab.sandbox import Sandbox
from hack.lab.soak.figures import Figures, thirds
from hack.lab.soak.plan import CLUSTERS
from hack.lab.soak.workload import Note

TARGET_COUNT = 10
"""Number of namespaces. Half of them exist in each target cluster, with a Source there and a Target in the source."""
GROWTH = 1.05
"""Largest allowed ratio of memory in the last third of the time to memory in the middle third."""
FEEDBACK_SECONDS = 1.0
REPLACED_PER_SECOND = 4.0
_NODES, _PODS_PER_NODE = 30, 250
_APPS = 5
_PROBE_PAUSE_SECONDS = 0.5
_PROBE_SECONDS = 30.0
_QUEUE_PAUSE_SECONDS = 5.0
_SETTLE_SECONDS = 15.0
_LOOK_SECONDS = 1.0
_QUEUE = "flotilla_queue_depth"


@dataclass
class Found:
    """Measurements: feedback times in seconds, and the number of keys in all queues of the source's agent."""

    feedback: list[float] = field(default_factory=list)
    lost: int = 0
    """Status changes that were not copied to an existing proxy pod."""
    queued: list[float] = field(default_factory=list)
    left: float = 0.0
    """Number of keys that wait after a period without changes."""
    replaced: int = 0
    filled: float = 0.0
    """Seconds until all pods ran."""


async def load(pods: int, minutes: float, progress: Progress, note: Note) -> tuple[Found, Figures]:
    """Run `pods` pods for `minutes`. Raises BenchError, SandboxError or KubeError."""
    sandbox = Sandbox(new_directory(), CLUSTERS, f"kwok:{_NODES}", pods_per_node=_PODS_PER_NODE, progress=progress)
    async with lab_in(sandbox, progress) as lab:
        return await _Load(lab, pods, note).run(minutes * 60)


def budgets(found: Found, figures: Figures) -> list[Budget]:
    """Return the limits of a load test, with the measured values."""
    grown = {
        name: thirds(series)["last"] / thirds(series)["middle"]
        for name, series in figures.memory.items()
        if name.endswith("/agent")
    }
    return [
        *(Budget(f"memory of {name}, last third / second", ratio, "most", GROWTH, "") for name, ratio in grown.items()),
        Budget("keys in queues in the end", found.left, "most", 0.0, ""),
        Budget("status feedback p99", stats.percentile(found.feedback, 99), "most", FEEDBACK_SECONDS, "s"),
        Budget("statuses that did not come home", float(found.lost), "most", 0.0, ""),
    ]


class _Load:
    def __init__(self, lab: Lab, pods: int, note: Note) -> None:
        self._lab = lab
        self._pods = pods
        self._note = note
        self._found = Found()
        self._figures = Figures(lab.sandbox)
        self._homes = {f"team-{number}": lab.targets[number % len(lab.targets)] for number in range(TARGET_COUNT)}
        self._informer = Informer(lab.source, PODS, labels=APP)
        self._informer.subscribe(self._changed)
        self._rounds: dict[str, asyncio.Future[float]] = {}
        self._chance = random.Random(self._pods)

    async def run(self, seconds: float) -> tuple[Found, Figures]:
        """Create the pods, keep them busy, measure, and wait until all queues are empty."""
        labels = {LABEL_ENABLED: ENABLED_VALUE}
        await asyncio.gather(*(join(self._lab, name, there, labels=labels) for name, there in self._homes.items()))
        await until(f"{TARGET_COUNT} virtual nodes take pods", lambda: takes_pods(self._lab, TARGET_COUNT))
        watching = asyncio.ensure_future(self._informer.run())
        try:
            await self._fill()
            await self._busy(seconds)
            await asyncio.sleep(_SETTLE_SECONDS)
            self._found.left = sum((await self._queues()).values())
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        return self._found, self._figures

    async def _fill(self) -> None:
        began = time.monotonic()
        each = self._pods // TARGET_COUNT // _APPS
        for name in self._homes:
            for number in range(_APPS):
                manifest = deployment(f"web-{number}", name, each, elected=True)
                await self._lab.source.create(DEPLOYMENTS, manifest)
        wanted = each * TARGET_COUNT * _APPS
        running, moved = 0, began
        while running < wanted:
            await asyncio.sleep(_LOOK_SECONDS)
            now = sum(pod.phase == "Running" and pod.scheduler_name == SCHEDULER_PROXY for pod in self._informer.store)
            if now != running:
                running, moved = now, time.monotonic()
            elif time.monotonic() - moved > STALL_SECONDS:
                raise BenchError(f"{running} of {wanted} pods run, and nothing has moved for {STALL_SECONDS:.0f} s")
        self._found.filled = time.monotonic() - began
        self._note(f"{wanted} pods run after {self._found.filled:.0f} s")

    async def _busy(self, seconds: float) -> None:
        work = (self._figures.run, self._replace, self._probe, self._watch_queues)
        tasks = [asyncio.ensure_future(each()) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _replace(self) -> None:
        """Delete random pods, one after the other; their Deployments replace them."""
        while True:
            await asyncio.sleep(self._chance.expovariate(REPLACED_PER_SECOND))
            pod = self._any()
            if pod is not None:
                with contextlib.suppress(KubeError):
                    await self._lab.source.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
                    self._found.replaced += 1

    async def _probe(self) -> None:
        """Change the status of random delegates, and measure the time until the proxy pod has it."""
        async with asyncio.TaskGroup() as group:
            number = 0
            while True:
                await asyncio.sleep(_PROBE_PAUSE_SECONDS)
                pod = self._any()
                if pod is not None:
                    number += 1
                    group.create_task(self._once(pod, f"round {number}"))

    async def _once(self, pod: Object, round_: str) -> None:
        seen = self._rounds[round_] = asyncio.get_running_loop().create_future()
        status = {"conditions": [{"type": CONDITION, "status": "True", "message": round_}]}
        target, name = self._homes[pod.namespace], chaperon(pod.name, pod.uid)
        began = time.monotonic()
        try:
            await target.patch_raw(PODS, name, {"status": status}, pod.namespace, sub="status", style="strategic")
            self._found.feedback.append(await asyncio.wait_for(seen, _PROBE_SECONDS) - began)
        except KubeError:
            pass  # The pod was deleted meanwhile.
        except TimeoutError:
            now = self._informer.store.get((pod.namespace, pod.name))
            self._found.lost += now is not None and now.uid == pod.uid and not now.deleting
        finally:
            del self._rounds[round_]

    async def _watch_queues(self) -> None:
        while True:
            found = await self._queues()
            self._found.queued.append(sum(found.values()))
            await asyncio.sleep(_QUEUE_PAUSE_SECONDS)

    async def _queues(self) -> Mapping[str, float]:
        """Return the number of keys that wait in the source's agent, by controller."""
        found: dict[str, float] = defaultdict(float)
        for labels, value in counters.samples(await self._lab.metrics(CLUSTERS[0], "agent"), _QUEUE):
            found[labels["controller"]] += value
        return found

    def _any(self) -> Object | None:
        """Return a random running pod; None if there is none."""
        running = [pod for pod in self._informer.store if pod.phase == "Running" and not pod.deleting]
        return self._chance.choice(running) if running else None

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or not self._rounds:
            return
        now = time.monotonic()
        for round_ in conditions(new.raw):
            seen = self._rounds.get(round_)
            if seen is not None and not seen.done():
                seen.set_result(now)
