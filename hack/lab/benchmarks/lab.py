"""A sandbox under measurement: its clusters' clients, and what its processes have used and written so far."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.kube.errors import KubeError
from hack.lab.benchmarks import counters, procfs, stats
from hack.lab.benchmarks.errors import BenchError
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import connect
from hack.lab.sandbox.process import last_lines

OURS = ("agent", "webhook")
BENCH = "bench/bench"
"""The process that measures: it shares the processors with what it measures, so its own use is told, too."""
WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Sample:
    """One look at everything: usage by `CLUSTER/PROCESS`, writes as in `counters`."""

    moment: float
    machine: float
    usage: dict[str, procfs.Usage]
    pids: dict[str, int]
    writes: dict[str, float]


@dataclass(frozen=True)
class Phase:
    """What happened between two samples: CPU seconds by `CLUSTER/PROCESS`, writes that came to be.

    `strangers` are CPU seconds of whatever else ran on the machine: they take from what is measured.
    """

    seconds: float
    cpu: dict[str, float]
    strangers: float
    writes: dict[str, float]


class Lab:
    """Clusters by name; the first is the source. Close it with its sandbox still up."""

    def __init__(self, sandbox: Sandbox, progress: Progress) -> None:
        self.sandbox = sandbox
        self.progress = progress
        self.clients = {cluster.name: connect(cluster.kubeconfig, name=cluster.name) for cluster in sandbox.clusters}
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))

    @property
    def names(self) -> list[str]:
        """Names of the clusters, the source first."""
        return list(self.clients)

    @property
    def source(self) -> Client:
        """The source's client."""
        return self.clients[self.names[0]]

    @property
    def targets(self) -> list[Client]:
        """The clients of the targets."""
        return [self.clients[name] for name in self.names[1:]]

    def pids(self, cluster: str) -> list[int]:
        """The processes of a cluster that run."""
        return [line.pid for line in self.sandbox.status() if line.cluster == cluster and line.pid is not None]

    async def close(self) -> None:
        """End all connections."""
        await self._http.close()
        for client in self.clients.values():
            await client.session.close()

    async def sample(self) -> Sample:
        """Look at every process. Raises BenchError when one of them is gone."""
        pids = {BENCH: os.getpid()}
        for line in self.sandbox.status():
            if line.pid is None:
                end = last_lines(self.sandbox[line.cluster].log(line.process))
                raise BenchError(f"cluster {line.cluster}: {line.process} has ended; the end of its log:\n{end}")
            pids[f"{line.cluster}/{line.process}"] = line.pid
        try:
            usage = {key: procfs.usage(pid) for key, pid in pids.items()}
        except OSError as error:
            raise BenchError(f"a process ended during the benchmark: {error}") from error
        return Sample(time.monotonic(), procfs.machine(), usage, pids, await self._writes())

    async def _writes(self) -> dict[str, float]:
        total: dict[str, float] = {}
        for cluster in self.sandbox.clusters:
            for process in OURS if self.sandbox.plan.agents else ():
                role = "source" if cluster.name == self.names[0] else "target"
                text = await self.metrics(cluster.name, process)
                for key, count in counters.writes(text, f"{role}-{process}").items():
                    total[key] = total.get(key, 0.0) + count
        return total

    async def metrics(self, cluster: str, process: str) -> str:
        """What an agent or a webhook says at /metrics. Raises BenchError when it does not answer."""
        each = self.sandbox[cluster]
        url = f"http://{each.address}:{each.ports[f'{process}-health']}/metrics"
        try:
            async with self._http.get(url) as response:
                return await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BenchError(f"cluster {cluster}: {process} gives no metrics: {str(error) or 'no answer'}") from error


def phase(before: Sample, after: Sample) -> Phase:
    """The difference of two samples. Raises BenchError when a process was started again between them."""
    changed = [key for key, pid in after.pids.items() if before.pids.get(key) != pid]
    if changed:
        raise BenchError(f"started again during the benchmark: {', '.join(changed)}")
    cpu = {key: usage.cpu - before.usage[key].cpu for key, usage in after.usage.items()}
    strangers = max(0.0, after.machine - before.machine - sum(cpu.values()))
    return Phase(after.moment - before.moment, cpu, strangers, stats.grown(before.writes, after.writes))


@contextlib.asynccontextmanager
async def open_lab(
    clusters: Sequence[str],
    nodes: int,
    pods_per_node: int,
    progress: Progress,
    *,
    candidate_scheduler: bool = False,
    agent_flags: Sequence[str] = (),
    webhook_flags: Sequence[str] = (),
) -> AsyncIterator[Lab]:
    """A lab with fake nodes, in a directory of its own."""
    sandbox = Sandbox(
        new_directory(),
        clusters,
        f"kwok:{nodes}",
        pods_per_node=pods_per_node,
        candidate_scheduler=candidate_scheduler,
        agent_flags=agent_flags,
        webhook_flags=webhook_flags,
        progress=progress,
    )
    async with lab_in(sandbox, progress) as lab:
        yield lab


def new_directory() -> Path:
    """A temporary directory for a sandbox."""
    return Path(tempfile.mkdtemp(prefix="flotilla-bench-"))


@contextlib.asynccontextmanager
async def lab_in(sandbox: Sandbox, progress: Progress) -> AsyncIterator[Lab]:
    """A lab in this sandbox, which is taken down in the end with its directory, whatever happens."""
    try:
        async with sandbox:
            lab = Lab(sandbox, progress)
            try:
                yield lab
            finally:
                await lab.close()
    finally:
        shutil.rmtree(sandbox.directory, ignore_errors=True)


async def until(what: str, probe: Callable[[], Awaitable[bool]], seconds: float = WAIT_SECONDS) -> None:
    """Wait until a probe holds; one that fails does not hold yet. Raises BenchError when time is up."""
    deadline = time.monotonic() + seconds
    reason = ""
    while time.monotonic() < deadline:
        try:
            if await probe():
                return
            reason = ""
        except KubeError as error:
            reason = f": {error}"
        await asyncio.sleep(0.2)
    raise BenchError(f"waited {seconds:.0f} s in vain until {what}{reason}")
