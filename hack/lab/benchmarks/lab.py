"""A sandbox under measurement: clients of its clusters, and CPU time, memory and writes of its processes."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
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
"""Key of the measuring process. It uses the same processors, so samples contain its CPU time, too."""
WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Sample:
    """Measurements at one time: usage by `CLUSTER/PROCESS`, writes as in `counters`."""

    moment: float
    machine: float
    usage: dict[str, procfs.Usage]
    pids: dict[str, int]
    writes: dict[str, float]


@dataclass(frozen=True)
class Phase:
    """Difference of two samples: CPU seconds by `CLUSTER/PROCESS`, and writes.

    `strangers` are the CPU seconds of all other processes of the machine, which slow down the measured ones.
    """

    seconds: float
    cpu: dict[str, float]
    strangers: float
    writes: dict[str, float]


class Lab:
    """Clients of the clusters by name, the source first. Close it while its sandbox is still up."""

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
        """Client of the source."""
        return self.clients[self.names[0]]

    @property
    def targets(self) -> list[Client]:
        """Clients of the targets."""
        return [self.clients[name] for name in self.names[1:]]

    def pids(self, cluster: str) -> list[int]:
        """Return the ids of the running processes of a cluster."""
        return [line.pid for line in self.sandbox.status() if line.cluster == cluster and line.pid is not None]

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()
        for client in self.clients.values():
            await client.session.close()

    async def sample(self, silent: Collection[str] = ()) -> Sample:
        """Measure every process. Raises BenchError if one of them has ended.

        :param silent: clusters whose link is cut, so that their writes cannot be read
        """
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
        return Sample(time.monotonic(), procfs.machine(), usage, pids, await self._writes(silent))

    async def _writes(self, silent: Collection[str]) -> dict[str, float]:
        total: dict[str, float] = {}
        for cluster in (each for each in self.sandbox.clusters if each.name not in silent):
            for process in OURS if self.sandbox.plan.agents else ():
                role = "source" if cluster.name == self.names[0] else "target"
                text = await self.metrics(cluster.name, process)
                for key, count in counters.writes(text, f"{role}-{process}").items():
                    total[key] = total.get(key, 0.0) + count
        return total

    async def metrics(self, cluster: str, process: str) -> str:
        """Return the metrics of an agent or a webhook. Raises BenchError if it does not answer."""
        each = self.sandbox[cluster]
        url = f"http://{each.address}:{each.ports[f'{process}-health']}/metrics"
        try:
            async with self._http.get(url) as response:
                return await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise BenchError(f"cluster {cluster}: {process} gives no metrics: {str(error) or 'no answer'}") from error


def phase(before: Sample, after: Sample) -> Phase:
    """Return the difference of two samples. Raises BenchError if a process was restarted between them."""
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
    """Start a sandbox with fake nodes in a temporary directory, and yield its lab."""
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
    """Return a new temporary directory for a sandbox."""
    return Path(tempfile.mkdtemp(prefix="flotilla-bench-"))


@contextlib.asynccontextmanager
async def lab_in(sandbox: Sandbox, progress: Progress) -> AsyncIterator[Lab]:
    """Start a sandbox, and yield its lab. Removes the sandbox and its directory at the end in any case."""
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
    """Wait until a probe returns True; an error counts as False. Raises BenchError after a timeout."""
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
