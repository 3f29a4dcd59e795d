"""One run: a Deployment of N pods until all are Running, then its deletion until nothing is left anywhere."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.api.kinds import CHAPERONS, PODS, Kind
from agent.api.names import SCHEDULER_PROXY
from agent.kube.client import Client
from agent.kube.compression import PACK_SECONDS, TRIM_PAUSE_SECONDS
from agent.kube.store import Object
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import stats
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, Phase, phase, until
from hack.lab.benchmarks.manifests import APP, DEPLOYMENTS, REPLICA_SETS, deployment
from hack.lab.benchmarks.pods import PodTimes
from hack.lab.benchmarks.procfs import Usage

STALL_SECONDS = 90.0
"""No pod has changed for so long: nothing more is going to happen."""
_LOSERS_SECONDS = 60.0
"""Losers of mode reserve may still be going when all pods run: of ten candidates nine are."""
REST_SECONDS = PACK_SECONDS + TRIM_PAUSE_SECONDS + 5.0
"""After that, before memory is read: until agents have packed what does not change, and given back what is free."""
SETTLE_SECONDS = 2.0
"""After each phase, before its CPU time and writes are read, so that work that lags behind counts."""


@dataclass(frozen=True)
class Load:
    """What to run: `pods` busybox pods in a namespace of the source."""

    name: str
    namespace: str
    pods: int
    elected: bool
    mode: str = ""
    """How elected pods are to be scheduled; empty: as the agent chooses."""
    cpu: str = ""
    """What each requests, empty for nothing."""


@dataclass(frozen=True)
class Run:
    """What came of it. `running` counts from the request that creates the Deployment to the last pod seen Running,
    `start` from a pod's first sight to Running, `gone` from the request that deletes it to nothing left anywhere."""

    pods: int
    running: float
    start: stats.Spread
    gone: float
    creation: Phase
    deletion: Phase
    memory_before: dict[str, Usage]
    memory: dict[str, Usage]
    places: dict[str, int]

    @property
    def rate(self) -> float:
        """Pods per second to Running."""
        return self.pods / self.running


async def run(lab: Lab, load: Load, *, settle: float = SETTLE_SECONDS) -> Run:
    """Measure one load. Raises BenchError when it does not come to its end, KubeError when an API server refuses."""
    before = await lab.sample()
    times = PodTimes(lab.source, load.namespace, load.name)
    async with Supervisor("bench") as supervisor:
        supervisor.spawn("pods", times.informer.run)
        await times.informer.synced.wait()
        running = await _create(lab, load, times)
        await asyncio.sleep(settle)
        created = await lab.sample()
        places = await _places(lab, load, times)
        await asyncio.sleep(REST_SECONDS if settle else 0.0)
        ready = await lab.sample()
        gone = await _delete(lab, load, times)
        await asyncio.sleep(settle)
    deleted = await lab.sample()
    return Run(
        pods=load.pods,
        running=running,
        start=stats.Spread.of(times.latencies),
        gone=gone,
        creation=phase(before, created),
        deletion=phase(ready, deleted),
        memory_before=before.usage,
        memory=ready.usage,
        places=places,
    )


async def _create(lab: Lab, load: Load, times: PodTimes) -> float:
    began = times.last_change = time.monotonic()
    manifest = deployment(load.name, load.namespace, load.pods, elected=load.elected, mode=load.mode, cpu=load.cpu)
    await lab.source.create(DEPLOYMENTS, manifest)
    await _progress(lab, times, load, "pods Running", lambda: len(times.running))
    return max(times.running.values()) - began


async def _delete(lab: Lab, load: Load, times: PodTimes) -> float:
    began = times.last_change = time.monotonic()
    await lab.source.delete(DEPLOYMENTS, load.name, load.namespace, propagation="Background")
    await _progress(lab, times, load, "pods gone", lambda: load.pods - times.left)
    await until("nothing is left of the deleted Deployment", lambda: _is_empty(lab, load))
    return time.monotonic() - began


async def _progress(lab: Lab, times: PodTimes, load: Load, what: str, done: Callable[[], int]) -> None:
    """Wait until all pods are done. Raises BenchError when nothing moves any more."""
    with lab.progress as progress:
        task = progress.task(f"{load.name}: {what}")
        while (count := done()) < load.pods:
            if time.monotonic() - times.last_change > STALL_SECONDS:
                raise BenchError(
                    f"{load.name}: {what}: {count} of {load.pods}, and nothing has moved for {STALL_SECONDS:.0f} s"
                )
            task.update(count, load.pods, f"{count}/{load.pods}")
            await asyncio.sleep(0.05)
        task.finish(f"{load.pods}/{load.pods}")


async def _places(lab: Lab, load: Load, times: PodTimes) -> dict[str, int]:
    """How many pods run in which cluster: the delegates where they are elected. Raises BenchError unless all do."""
    if not load.elected:
        return {lab.names[0]: times.left}
    strangers = [pod.name for pod in times.informer.store if pod.scheduler_name != SCHEDULER_PROXY]
    if strangers:
        raise BenchError(f"{len(strangers)} pods were not elected, {strangers[0]} among them: did the webhook answer?")
    places: dict[str, int] = {}

    async def agree() -> bool:
        places.update({target.name: await _count(target, PODS, load) for target in lab.targets})
        return sum(places.values()) == load.pods

    try:
        await until("the targets hold as many delegates", agree, _LOSERS_SECONDS)
    except BenchError as error:
        raise BenchError(
            f"{load.pods} elected pods are Running, the targets hold {places} delegates: {error}"
        ) from None
    return places


async def _is_empty(lab: Lab, load: Load) -> bool:
    if (await lab.source.list_raw(DEPLOYMENTS, load.namespace, fields=f"metadata.name={load.name}"))[1]:
        return False
    for kind in (REPLICA_SETS, PODS):
        if (await lab.source.list_raw(kind, load.namespace, labels=f"{APP}={load.name}"))[1]:
            return False
    return not load.elected or all([await _is_target_empty(target, load) for target in lab.targets])


async def _is_target_empty(target: Client, load: Load) -> bool:
    return not any([await _count(target, kind, load) for kind in (CHAPERONS, PODS)])


async def _count(target: Client, kind: Kind, load: Load) -> int:
    """Chaperons and delegates are named after their proxy pods, and those after their Deployment."""
    _, items = await target.list_raw(kind, load.namespace)
    return sum(Object(kind, bytes(item)).name.startswith(f"{load.name}-") for item in items)
