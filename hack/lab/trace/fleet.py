"""Small fleet whose processes are traced while one pod is scheduled."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.api.kinds import CHAPERONS, PODS
from agent.api.names import LABEL_PARENT_UID
from agent.cli.progress import Progress
from agent.kube.errors import NotFound
from agent.settings import Mode
from hack.lab.benchmarks.burst import CLUSTERS, elects, takes_pods
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, open_lab, until
from hack.lab.benchmarks.manifests import pod_template
from hack.lab.benchmarks.profiled import start_with
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.components import AGENT, WEBHOOK, Component
from hack.lab.sandbox.manifests import NAMESPACE, Manifest
from hack.lab.trace.recorder import Calls, read

NODES = 2
POD, WARM_UP = "traced-by-name", "warm-up"
LAUNCHER = "hack.lab.trace.launcher"
_CPU = {POD: "100m", WARM_UP: "200m"}
"""Requests differ, so that the scheduler cannot reuse cached results of the first pod for the second one."""


@dataclass(frozen=True)
class Process:
    """A process under the tracer."""

    cluster: str
    component: Component

    @property
    def name(self) -> str:
        """Name of the process in `sandbox status`."""
        return f"{self.cluster}/{self.component.name}"


@dataclass(frozen=True)
class Traced:
    """Node of the pod, and calls by process and controller; the source's agent comes first."""

    mode: Mode
    node: str
    processes: dict[str, dict[str, Calls]]


async def trace(mode: Mode, progress: Progress, *, directory: Path | None = None, whole: bool = False) -> Traced:
    """Trace one pod. Raises BenchError, SandboxError or KubeError.

    :param directory: of a running sandbox with joined clusters; None starts one
    :param whole: whether to trace the source's webhook and the targets' agents, too
    """
    async with _lab(mode, progress, directory) as lab:
        await until("every target has a virtual node that takes pods", lambda: takes_pods(lab, len(lab.targets)))
        await until("the webhook elects pods", lambda: elects(lab))
        processes = _processes(lab, whole=whole)
        try:
            for each in processes:
                await start_with(lab.sandbox, each.cluster, each.component, LAUNCHER, str(_file(lab, each)), POD)
            await until("every target has a virtual node that takes pods", lambda: takes_pods(lab, len(lab.targets)))
            # The first pod sets up connections and caches; their calls do not belong to the trace.
            await _gone(lab, await _placed(lab, WARM_UP, mode))
            pod = await _placed(lab, POD, mode)
            found = {each.name: await _ended(lab, each) for each in processes}
        finally:
            if directory is not None:
                await _as_before(lab, processes)
        return Traced(mode, pod["spec"]["nodeName"], found)


@contextlib.asynccontextmanager
async def _lab(mode: Mode, progress: Progress, directory: Path | None) -> AsyncIterator[Lab]:
    if directory is not None:
        lab = Lab(Sandbox.open(directory), progress)
        try:
            yield lab
        finally:
            await lab.close()
        return
    async with open_lab(CLUSTERS, NODES, 110, progress, candidate_scheduler=mode == "reserve") as lab:
        await lab.sandbox.join()
        yield lab


def _processes(lab: Lab, *, whole: bool) -> list[Process]:
    source, *targets = lab.names
    others = [Process(source, WEBHOOK), *(Process(each, AGENT) for each in targets)]
    return [Process(source, AGENT), *(others if whole else ())]


def _file(lab: Lab, process: Process) -> Path:
    return lab.sandbox[process.cluster].directory / f"{process.component.name}.trace"


def _manifest(name: str, mode: Mode) -> Manifest:
    template = pod_template(name, elected=True, mode=mode, cpu=_CPU[name])
    metadata = template["metadata"] | {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


async def _placed(lab: Lab, name: str, mode: Mode) -> Manifest:
    """Create a pod, and return it once it runs and has only one chaperon left."""
    await lab.source.create(PODS, _manifest(name, mode))
    found: Manifest = {}

    async def runs() -> bool:
        found.update(await lab.source.get(PODS, name, NAMESPACE))
        phase = found.get("status", {}).get("phase")
        return phase == "Running" and await _chaperons(lab, found["metadata"]["uid"]) == 1

    await until(f"pod {name} runs, and has one chaperon", runs)
    return found


async def _chaperons(lab: Lab, uid: str) -> int:
    label = f"{LABEL_PARENT_UID}={uid}"
    found = await asyncio.gather(*(target.list(CHAPERONS, NAMESPACE, labels=label) for target in lab.targets))
    return sum(map(len, found))


async def _gone(lab: Lab, pod: Manifest) -> None:
    """Delete a pod, and wait until it and its chaperons no longer exist."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    await lab.source.delete(PODS, name, NAMESPACE)

    async def gone() -> bool:
        try:
            await lab.source.get(PODS, name, NAMESPACE)
        except NotFound:
            return await _chaperons(lab, uid) == 0
        return False

    await until(f"pod {name} is gone", gone)


async def _ended(lab: Lab, process: Process) -> dict[str, Calls]:
    """End a process, which then writes its trace, and return the calls."""
    file = _file(lab, process)
    await lab.sandbox.kill(process.cluster, process.component.name, signal.SIGTERM)

    async def written() -> bool:
        return await asyncio.to_thread(file.exists)

    await until(f"{process.name} has written {file}", written)
    found = read(file)
    if not found and process.component is AGENT and process.cluster == lab.names[0]:
        raise BenchError(f"{process.name} has done nothing for pod {POD}: see {file.with_suffix('.log')}")
    return found


async def _as_before(lab: Lab, processes: Sequence[Process]) -> None:
    """Restart the processes without the tracer, and delete the pods."""
    for each in processes:
        await lab.sandbox.restart(each.cluster, each.component.name)
        _file(lab, each).unlink(missing_ok=True)
    for name in (WARM_UP, POD):
        with contextlib.suppress(NotFound):
            await _gone(lab, await lab.source.get(PODS, name, NAMESPACE))
