"""Executes the faults of a plan in a sandbox, and restarts processes that end unexpectedly."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from typing import Literal

import aiohttp

from hack.lab.sandbox import Cluster, Sandbox, SandboxError, blackhole
from hack.lab.sandbox.components import components
from hack.lab.sandbox.process import last_lines
from hack.lab.soak.evidence import AGENTS, Outage
from hack.lab.soak.plan import SOURCE, Fault, Plan
from hack.lab.soak.workload import Note

OURS = (*AGENTS, "webhook")
_LOOK_SECONDS = 1.0
_ASK = aiohttp.ClientTimeout(total=1.0)


class Saboteur:
    """Executes faults. `outages` are those so far; `ended` are logs of agents and webhooks that ended unexpectedly."""

    def __init__(self, sandbox: Sandbox, note: Note) -> None:
        self.outages: list[Outage] = []
        self.ended: list[str] = []
        self._sandbox = sandbox
        self._note = note
        self._held: set[tuple[str, str]] = set()

    async def run(self, plan: Plan, began: float) -> None:
        """Execute every fault at its time after `began` (of the event loop). Return when all processes run again."""
        async with asyncio.TaskGroup() as group:
            for fault in plan.faults:
                await asyncio.sleep(began + fault.at - asyncio.get_running_loop().time())
                group.create_task(self._do(fault))
        await asyncio.gather(*(self._renew_fake_kubelet(cluster.name) for cluster in self._sandbox.clusters))

    async def _renew_fake_kubelet(self, cluster: str) -> None:
        """Restart kwok, which drops a pod after HTTP 500 for its status update; API servers return 500 without etcd.

        A kubelet retries until it succeeds; `shouldRetry` of kwok v0.8.0 retries after other errors only.
        """
        async with self._holding(cluster, "kwok"):
            await self._sandbox.stop(cluster, "kwok")
            await self._start(cluster, "kwok")

    async def keep_alive(self) -> None:
        """Restart processes that end unexpectedly, as a kubelet does, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                for cluster in self._sandbox.clusters:
                    for name in components(self._sandbox.plan):
                        if (cluster.name, name) not in self._held and cluster.pid(name) is None:
                            self._held.add((cluster.name, name))
                            group.create_task(self._revive(cluster, name))
                await asyncio.sleep(_LOOK_SECONDS)

    async def _revive(self, cluster: Cluster, name: str) -> None:
        end = last_lines(cluster.log(name))
        self._note(f"{cluster.name}/{name} has ended by itself:\n{end}")
        if name in OURS:
            self.ended.append(f"{cluster.name}/{name}\n{end}")
        async with self._holding(cluster.name, name):
            await self._start(cluster.name, name)

    async def _do(self, fault: Fault) -> None:
        process = await self._process(fault)
        self._note(f"{fault.what} {fault.cluster}/{process}, {fault.seconds:.1f} s")
        began = time.time()
        if process == "link":
            await self._link(fault)
        elif (fault.cluster, process) in self._held:
            self._note(f"{fault.cluster}/{process} is being started just now: left alone")
            return
        else:
            async with self._holding(fault.cluster, process):
                await self._process_fails(fault, process)
        self.outages.append(Outage(fault.cluster, process, fault.what, began, time.time()))

    async def _process_fails(self, fault: Fault, process: str) -> None:
        sandbox, cluster = self._sandbox, fault.cluster
        try:
            match fault.what:
                case "kill":
                    await sandbox.kill(cluster, process)
                    await asyncio.sleep(fault.seconds)
                case "stop":
                    await sandbox.kill(cluster, process, signal.SIGSTOP)
                    await asyncio.sleep(fault.seconds)
                    await sandbox.kill(cluster, process, signal.SIGCONT)
                case _:
                    await sandbox.stop(cluster, process)
        except SandboxError as error:
            # The process ended a moment ago, without a fault.
            self._note(str(error))
        await self._start(cluster, process)

    async def _start(self, cluster: str, process: str) -> None:
        """Start a process until it stays up: an API server exits while its etcd does not answer."""
        while True:
            try:
                await self._sandbox.start(cluster, process)
                return
            except SandboxError:
                await asyncio.sleep(_LOOK_SECONDS)

    async def _link(self, fault: Fault) -> None:
        if fault.what == "cut":
            await self._sandbox.set_link(fault.cluster, up=False)
            await asyncio.sleep(fault.seconds)
            await self._sandbox.set_link(fault.cluster, up=True)
            return
        lost: Literal["requests", "replies"] = "requests" if fault.what == "requests" else "replies"
        ends = [self._sandbox[name].runner.cluster for name in (fault.cluster, SOURCE)]
        await blackhole.swallow(ends[0], ends[1], lost)
        await asyncio.sleep(fault.seconds)
        await blackhole.let_through(ends[0], ends[1], lost)

    async def _process(self, fault: Fault) -> str:
        """Return the name of the process to fail; `leader` and `standby` are resolved to the agents of the cluster."""
        if fault.process not in ("leader", "standby"):
            return fault.process
        leads = await leader(self._sandbox, fault.cluster) or AGENTS[0]
        return leads if fault.process == "leader" else next(name for name in AGENTS if name != leads)

    @contextlib.asynccontextmanager
    async def _holding(self, cluster: str, process: str) -> AsyncIterator[None]:
        self._held.add((cluster, process))
        try:
            yield
        finally:
            self._held.discard((cluster, process))


async def leader(sandbox: Sandbox, cluster: str) -> str:
    """Return the agent whose metrics report that it leads; empty if none does."""
    each = sandbox[cluster]
    async with aiohttp.ClientSession(timeout=_ASK) as http:
        for name in AGENTS:
            url = f"http://{each.address}:{each.ports[f'{name}-health']}/metrics"
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with http.get(url) as response:
                    if "\nflotilla_leader 1.0" in await response.text():
                        return name
    return ""
