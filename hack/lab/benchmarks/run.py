"""One run: create a Deployment of N pods, wait until all are Running, delete it, wait until all pods are deleted."""

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
"""Seconds without a change of any pod after which the run fails."""
_LOSERS_SECONDS = 60.0
"""Seconds to wait until the losing candidates of mode reserve are deleted: of ten candidates nine lose."""
REST_SECONDS = PACK_SECONDS + TRIM_PAUSE_SECONDS + 5.0
"""Seconds to wait before reading memory, until agents have compressed their caches and returned free memory."""
SETTLE_SECONDS = 2.0
"""Seconds to wait after each phase before reading CPU time and writes, so that late work counts."""


@dataclass(frozen=True)
class Load:
    """A load of `pods` busybox pods in a namespace of the source."""

    name: str
    namespace: str
    pods: int
    elected: bool
    mode: str = ""
    """Scheduling mode of elected pods; empty for the agent's default."""
    cpu: str = ""
    """CPU request of each pod; empty for none."""


@dataclass(frozen=True)
class Run:
    """Result of a run.

    `running` counts from the request that creates the Deployment to the last pod Running, `start` from a pod's
    first observation to Running. `gone` counts from the request that deletes the Deployment to the end of all
    pods.
    """

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
    """Measure one load. Raises BenchError if it does not finish, KubeError if an API server refuses."""
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
    """Wait until all pods are done. Raises BenchError after a period without changes."""
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
    """Return the number of running pods (delegates if elected) by cluster. Raises BenchError unless all run."""
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
    """Count the load's objects in a target; names of chaperons and delegates begin with the Deployment's name."""
    _, items = await target.list_raw(kind, load.namespace)
    return sum(Object(kind, bytes(item)).name.startswith(f"{load.name}-") for item in items)
