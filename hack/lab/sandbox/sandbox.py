"""A sandbox: up, down, status, and intentional faults."""

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec

from agent.cli.progress import Progress, Silent, ticking, together
from hack.lab.sandbox import arguments, binaries, network, objects, older, process, store
from hack.lab.sandbox.bringup import Runner, bring_up
from hack.lab.sandbox.cluster import Cluster
from hack.lab.sandbox.components import APISERVER, KWOK, Component, components
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.layout import Network, PodNetwork, Request, lay_out
from hack.lab.sandbox.plan import NodeShape, Plan, identity
from hack.lab.sandbox.realnode import boot, cgroups

State = Literal["running", "dead"]
KILL_SECONDS = 20.0
STOP_SECONDS = 5.0
"""Seconds until a stop becomes a kill: an API server would wait a minute for its watches to end."""


class ProcessStatus(msgspec.Struct, frozen=True):
    """One line of `sandbox status`."""

    cluster: str
    address: str
    process: str
    pid: int | None
    state: State


class Sandbox:
    """Several clusters in one directory.

    - `clusters`: names, as a list or `cd,us,eu`
    - `nodes`: `kwok:N`, `real:1` or `real:1+kwok:N`
    - `regions`: `CLUSTER=REGION` pairs
    - `agent_flags`, `webhook_flags`: appended to the command lines
    - `candidate_scheduler`: for mode `reserve`
    - `replicas`: agents of each cluster, 1 or 2 with one leader; only 1 with a candidate scheduler
    - `audit`: API servers write `audit.log`, by the sandbox's policy (True) or by the policy in a file; by
      default it contains requests of Flotilla's agents and webhooks
    - `kubernetes`: `CLUSTER=1.30` pairs, for other versions than the sandbox's own
    - `pod_network`: `own` gives each cluster a network that is routed to all others; `same` is one network
      without routes
    - `ip_family`: `ipv4`, `ipv6` or `dual`, of addresses, pods and Services; the last two need network
      namespaces
    - `network`: `auto` gives each cluster a network namespace if that is allowed, else a loopback address
    """

    _plan: Plan | None = None

    def __init__(
        self,
        directory: Path | str,
        clusters: Sequence[str] | str = ("cd", "us", "eu"),
        nodes: str = "kwok:5",
        *,
        agents: bool = True,
        agent_flags: Sequence[str] = (),
        webhook_flags: Sequence[str] = (),
        regions: Sequence[str] = (),
        node_cpu: str = "32",
        node_memory: str = "256Gi",
        pods_per_node: int = 110,
        candidate_scheduler: bool = False,
        replicas: int = 1,
        audit: bool | Path = False,
        kubernetes: Sequence[str] = (),
        network: Network = "auto",
        pod_network: PodNetwork = "own",
        ip_family: str = "ipv4",
        progress: Progress | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        names, (kind, count, fakes) = arguments.parse_names(clusters), arguments.parse_nodes(nodes)
        self._request = Request(
            names=names,
            regions=arguments.parse_regions(regions, names),
            shape=NodeShape(count, node_cpu, node_memory, pods_per_node, kind, fakes),
            agents=agents,
            agent_flags=tuple(agent_flags),
            webhook_flags=tuple(webhook_flags),
            network=network,
            candidate_scheduler=candidate_scheduler,
            audit=audit,
            replicas=arguments.parse_replicas(replicas, candidate_scheduler=candidate_scheduler),
            versions=arguments.parse_versions(kubernetes, names, kind),
            same_pods=pod_network == "same",
            family=arguments.parse_family(ip_family),
        )
        self._progress = progress or Silent()

    @classmethod
    def open(cls, directory: Path | str, progress: Progress | None = None) -> "Sandbox":
        """Open the sandbox in a directory. Raises SandboxError if it contains none."""
        path = Path(directory).resolve()
        plan = store.load(path)
        if plan is None:
            raise SandboxError(f"there is no sandbox in {path}: start one with `flotilla sandbox up --dir {path}`")
        sandbox = cls(path, [cluster.name for cluster in plan.clusters], agents=plan.agents, progress=progress)
        sandbox._plan = plan
        return sandbox

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()

    @property
    def plan(self) -> Plan:
        """Plan of the running sandbox. Raises SandboxError before `up`."""
        if self._plan is None:
            raise SandboxError(f"the sandbox in {self.directory} is not up")
        return self._plan

    @property
    def clusters(self) -> list[Cluster]:
        """Clusters in the order of their names in the constructor."""
        return [Cluster(self.plan, cluster, self.directory / cluster.name) for cluster in self.plan.clusters]

    def __getitem__(self, name: str) -> Cluster:
        """Return a cluster by its name. Raises SandboxError."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        known = ", ".join(cluster.name for cluster in self.plan.clusters)
        raise SandboxError(f"no cluster {name!r} in this sandbox (it has: {known})")

    async def up(self) -> list[str]:
        """Start the sandbox, or restart the processes of a running one that have ended.

        Returns `CLUSTER/PROCESS` of everything restarted in an existing sandbox; empty for a new one. Removes
        everything if it fails or is cancelled. Raises SandboxError.
        """
        existing = store.load(self.directory)
        programs = None if existing else await self._programs()
        async with store.locked(self.directory, create=True):
            existing = store.load(self.directory)
            if existing is not None:
                return await self._repair(existing)
            if programs is None:
                raise SandboxError(f"the sandbox in {self.directory} was taken down meanwhile: try again")
            try:
                store.claim(self.directory, len(self._request.names))
            except SandboxError:
                _remove_if_empty(self.directory)
                raise
            try:
                await self._sweep()
                await self._build(programs)
            except BaseException as error:
                await self._abandon()
                if isinstance(error, OSError):
                    raise SandboxError(f"cannot start the sandbox: {error}") from error
                raise
        return []

    async def down(self) -> bool:
        """Stop everything and remove the directory. Return whether a sandbox existed. Raises SandboxError."""
        async with store.locked(self.directory, create=False) as exists:
            if exists:
                store.check_place(self.directory)
            found = await self._sweep()
            found = found or (exists and (self.directory / store.RECORD).exists())
            if found:
                store.remove(self.directory)
        self._plan = None
        return found

    def status(self) -> list[ProcessStatus]:
        """Return every process of the sandbox, and whether it runs."""
        found = []
        for cluster in self.clusters:
            for name in components(self.plan):
                pid = cluster.pid(name)
                found.append(ProcessStatus(cluster.name, cluster.address, name, pid, "running" if pid else "dead"))
        return found

    async def join(self, *, self_target: bool = False) -> None:
        """Make the first cluster the source and every other one a target. Raises SandboxError or KubeError."""
        source_plan, *targets = self.plan.clusters
        source = objects.connect_for_setup(self[source_plan.name].kubeconfig, name=source_plan.name)
        async with source.session:
            for plan in targets:
                target = objects.connect_for_setup(self[plan.name].kubeconfig, name=plan.name)
                async with target.session:
                    authority = (self.directory / plan.name / "pki" / "ca.crt").read_bytes()
                    await objects.join_target(source, source_plan, target, plan, authority)
            await objects.join_source(source, source_plan, self_target=self_target)

    async def load(self, file: Path) -> None:
        """Import images that `realnode.images.build` wrote into every real node. Raises SandboxError."""
        if not self.plan.real_nodes:
            raise SandboxError("images are of no use to fake nodes: a sandbox with --nodes real:1 has real ones")
        await together([boot.load(cluster.runner, file) for cluster in self.clusters])

    async def start(self, cluster: str, name: str) -> None:
        """Start one process and wait until it is ready."""
        runner, component = self._component(cluster, name)
        client = objects.connect_for_setup(self[cluster].kubeconfig, name=cluster)
        async with client.session:
            if component is KWOK:
                await objects.end_leases(client)
            await runner.started(component)
            if component is APISERVER:
                await runner.wait("/readyz", lambda: objects.is_ready(client), component)

    async def stop(self, cluster: str, name: str) -> None:
        """End one process in an orderly way, or by force after 5 s."""
        runner, _ = self._component(cluster, name)
        if (pid := runner.find(name)) is not None:
            await process.stop(pid, runner.mark(name), grace=STOP_SECONDS)

    async def restart(self, cluster: str, name: str) -> None:
        """Stop one process and start it again."""
        await self.stop(cluster, name)
        await self.start(cluster, name)

    async def kill(self, cluster: str, name: str, number: int = signal.SIGKILL) -> None:
        """Send one process a signal; after SIGKILL, wait until it has ended. Raises SandboxError if it does not run."""
        runner, _ = self._component(cluster, name)
        if (pid := runner.find(name)) is None or not process.send(pid, runner.mark(name), number):
            raise SandboxError(f"cluster {cluster}: {name} does not run")
        if number == signal.SIGKILL:
            await process.wait_gone([pid], KILL_SECONDS)

    async def set_link(self, cluster: str, up: bool) -> None:
        """Cut a cluster off from all others and from this machine, or connect it again (needs root)."""
        await network.set_link(self.plan, self[cluster].runner.cluster.index, up=up)

    def _component(self, cluster: str, name: str) -> tuple[Runner, Component]:
        table = components(self.plan)
        if name not in table:
            raise SandboxError(f"no process {name!r} in this sandbox (it has: {', '.join(table)})")
        return self[cluster].runner, table[name]

    async def _programs(self) -> binaries.Programs:
        for version in set(self._request.versions.values()):
            await older.find(version, self._progress)
        shape = self._request.shape
        return await binaries.for_nodes(shape.kind, self._progress, fakes=bool(shape.fakes))

    async def _build(self, programs: binaries.Programs) -> None:
        async with network.exclusive():
            plan = await lay_out(self.directory, self._request, programs)
            store.save(self.directory, plan)
            self._plan = plan
            await network.make(plan)
        await self._start_all()

    async def _repair(self, plan: Plan) -> list[str]:
        names = tuple(cluster.name for cluster in plan.clusters)
        if names != self._request.names:
            raise SandboxError(
                f"a sandbox with the clusters {', '.join(names)} is up in {self.directory}:"
                " take it down first, or choose another --dir"
            )
        self._plan = plan
        dead = [f"{line.cluster}/{line.process}" for line in self.status() if line.pid is None]
        await network.make(plan)
        if dead:
            await self._start_all()
        return dead

    async def _start_all(self) -> None:
        with self._progress as progress:
            waits = [bring_up(cluster.runner, progress.task(f"cluster {cluster.name}")) for cluster in self.clusters]
            await ticking(progress, together(waits))

    async def _sweep(self) -> bool:
        """End all processes and remove the network, by names and marks alone: the record may be lost."""
        name = identity(self.directory)
        network.require_rights(name)
        nodes = network.namespace_name(name, "*")
        found = bool(process.find_all(name))
        left = await boot.kill(name, nodes, KILL_SECONDS)
        if left:
            raise SandboxError(f"processes {left} of the sandbox do not end: take it down again")
        found = cgroups.remove(nodes) or found
        return await network.remove(name) or found

    async def _abandon(self) -> None:
        self._plan = None
        await self._sweep()
        store.remove(self.directory)


def _remove_if_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(directory)
