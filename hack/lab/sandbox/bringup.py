"""Start of one cluster: files, processes in order, first objects."""

import asyncio
import datetime
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import aiohttp

from agent.api import ownroles
from agent.cli.progress import Task
from agent.kube.client import Client
from agent.kube.errors import KubeError
from hack.lab.sandbox import certificates, inotify, kubeconfig, network, objects, process
from hack.lab.sandbox.components import (
    AGENT,
    AGENT_KUBECONFIG,
    APISERVER,
    CANDIDATE_SCHEDULER,
    CANDIDATE_SCHEDULER_CONFIG,
    CONTROLLER_MANAGER,
    ETCD,
    KWOK,
    NODE,
    SCHEDULER,
    SECOND_AGENT,
    WEBHOOK,
    WEBHOOK_KUBECONFIG,
    Component,
    Context,
    components,
    node_components,
)
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.listening import is_listening
from hack.lab.sandbox.manifests import scheduler_configuration
from hack.lab.sandbox.plan import ClusterPlan, Plan
from hack.lab.sandbox.realnode import boot, host

START_SECONDS = 120.0
"""Timeout of one step in seconds: twelve clusters that start together on two cores need much of it."""
STEPS = 5
_POLL_SECONDS, _POLL_PART = 0.05, 10
"""Pause between two probes: seconds, or this fraction of the time waited so far, whichever is longer."""
_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=5)
_LOW_DISK_BYTES = 16 << 20


class Runner:
    """The processes of one cluster."""

    def __init__(self, plan: Plan, cluster: ClusterPlan, directory: Path) -> None:
        self.plan = plan
        self.cluster = cluster
        self.directory = directory
        self._context = Context(plan, cluster, directory)

    def mark(self, name: str) -> str:
        """Return the mark of a process in its environment."""
        return f"{self.plan.identity}/{self.cluster.name}/{name}"

    def find(self, name: str) -> int | None:
        """Return the process id of a component; None if it does not run."""
        return process.find(self.directory / f"{name}.pid", self.mark(name))

    def start(self, component: Component) -> int:
        """Start a component unless it runs. Raises SandboxError if one of its ports is in use."""
        running = self.find(component.name)
        if running is not None:
            return running
        if not self.cluster.namespace:
            self._require_free_ports(component)
        env = process.environment(os.environ, self.mark(component.name), str(objects.REPOSITORY))
        env["PATH"] = host.search_path()
        return process.start(
            component.argv(self._context),
            env,
            log=self.directory / f"{component.name}.log",
            pid_file=self.directory / f"{component.name}.pid",
            namespace=self.cluster.namespace,
            mounts=(self.find(NODE.name) or 0) if component.on_node else 0,
        )

    async def started(self, component: Component) -> int:
        """Start a component, and wait until it listens on its ports and its /readyz succeeds, if it has one."""
        pid = self.start(component)
        ports = [self.cluster.ports[name] for name in component.ports]

        async def listens() -> bool:
            return all(is_listening(pid, port) for port in ports)

        await self.wait("listens", listens, component)
        if component.health:
            url = f"http://{self.cluster.at(component.health)}/readyz"
            async with aiohttp.ClientSession(timeout=_PROBE_TIMEOUT) as session:
                await self.wait(url, lambda: _answers(session, url), component)
        return pid

    async def wait(self, what: str, probe: Callable[[], Awaitable[bool]], *needed: Component) -> None:
        """Wait until a probe returns True. It needs some components; a timeout is attributed to the first one.

        Raises SandboxError with the end of the log of a component that has ended.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not await probe():
            self.require(needed)
            waited = loop.time() - began
            if waited > START_SECONDS:
                raise SandboxError(self._epitaph(needed[0], f"not ready within {START_SECONDS:.0f} s ({what})"))
            await asyncio.sleep(max(_POLL_SECONDS, waited / _POLL_PART))

    def require(self, needed: Iterable[Component]) -> None:
        """Raise SandboxError if one of these started components has ended."""
        for component in needed:
            if self.find(component.name) is None:
                raise SandboxError(self._epitaph(component, "ended"))

    def _require_free_ports(self, component: Component) -> None:
        for name in component.ports:
            port = self.cluster.ports[name]
            if not network.is_free(self.cluster.address, port):
                raise SandboxError(
                    f"cluster {self.cluster.name}: {component.name} needs port {port} of {self.cluster.address},"
                    " which is taken by another process: end that one, or take the sandbox down and up again"
                )

    def _epitaph(self, component: Component, what: str) -> str:
        log = self.directory / f"{component.name}.log"
        text = f"cluster {self.cluster.name}: {component.name} {what}; the end of its log:\n{process.last_lines(log)}"
        if shutil.disk_usage(self.directory).free < _LOW_DISK_BYTES:
            text += f"\n  the disk of {self.directory} is full: free some space, or use another --dir"
        return text


def write_files(cluster: ClusterPlan, directory: Path) -> None:
    """Write the cluster's certificates, keys and kubeconfigs, unless they exist."""
    pki = directory / "pki"
    if (directory / "kubeconfig").exists():
        return
    directory.mkdir(mode=0o700, exist_ok=True)
    pki.mkdir(mode=0o700, exist_ok=True)
    authority = certificates.Authority(cluster.name, datetime.datetime.now(datetime.UTC))
    hosts = [*cluster.addresses, *cluster.first_services, "127.0.0.1", "localhost", cluster.name]
    hosts += ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    serving = authority.serving(hosts)
    private, public = certificates.service_account_keys()
    files = {
        "ca.crt": authority.pair.certificate,
        "ca.key": authority.pair.key,
        "kube-apiserver.crt": serving.certificate,
        "kube-apiserver.key": serving.key,
        "sa.key": private,
        "sa.pub": public,
    }
    clients = {name: authority.client(*subject) for name, subject in certificates.CLIENTS.items()}
    for name in ("kubelet-client", "front-proxy"):
        files |= {f"{name}.crt": clients[name].certificate, f"{name}.key": clients[name].key}
    for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
        text = kubeconfig.render(cluster.name, cluster.server, authority.pair.certificate, client=clients[name])
        files[f"{name}.kubeconfig"] = text.encode()
    if cluster.nodes.kind == "real":
        files |= _node_files(cluster, authority)
    for name, content in files.items():
        _write_private(pki / name, content)
    admin = kubeconfig.render(cluster.name, cluster.server, authority.pair.certificate, client=clients["admin"])
    _write_private(directory / "kubeconfig", admin.encode())


def _node_files(cluster: ClusterPlan, authority: certificates.Authority) -> dict[str, bytes]:
    serving = boot.serving_pair(cluster, authority)
    files = {"kubelet.crt": serving.certificate, "kubelet.key": serving.key}
    for name, subject in boot.clients(cluster).items():
        client = authority.client(*subject)
        text = kubeconfig.render(cluster.name, cluster.server, authority.pair.certificate, client=client)
        files[f"{name}.kubeconfig"] = text.encode()
    return files


async def write_agent_kubeconfigs(runner: Runner, client: Client) -> None:
    """Write the kubeconfigs of the cluster's own agent and webhook, unless they exist."""
    cluster, authority = runner.cluster, (runner.directory / "pki" / "ca.crt").read_bytes()
    for component, account, file in (
        (AGENT, ownroles.AGENT, AGENT_KUBECONFIG),
        (WEBHOOK, ownroles.WEBHOOK, WEBHOOK_KUBECONFIG),
    ):
        path = runner.directory / file
        if component.name in components(runner.plan) and not path.exists():
            token = await objects.account_token(client, account)
            _write_private(path, kubeconfig.render(cluster.name, cluster.server, authority, token=token).encode())


async def bring_up(runner: Runner, task: Task) -> None:
    """Start a cluster's missing processes, and wait until pods can be created and run. Raises SandboxError."""
    cluster = runner.cluster
    inotify.allow()
    try:
        task.update(0, STEPS, "etcd")
        write_files(cluster, runner.directory)
        await runner.started(ETCD)
        task.update(1, STEPS, "API server")
        runner.start(APISERVER)
        if runner.plan.real_nodes:
            await boot.boot(runner)
        client = objects.connect_for_setup(runner.directory / "kubeconfig", name=cluster.name)
        async with client.session:
            await runner.wait("/readyz", lambda: objects.is_ready(client), APISERVER, ETCD)
            task.update(2, STEPS, "nodes")
            if runner.plan.real_nodes:
                boot.start(runner)
            if runner.plan.fake_nodes and runner.find(KWOK.name) is None:
                await objects.end_leases(client)
                runner.start(KWOK)
            runner.start(SCHEDULER)
            await objects.apply_definitions(client)
            if runner.plan.agents:
                await objects.apply_policies(client)
            await runner.wait("CRDs established", lambda: objects.is_served(client), APISERVER, ETCD)
            # Its garbage collector checks for new kinds only every 30 s, so the CRDs have to exist first.
            runner.start(CONTROLLER_MANAGER)
            await write_agent_kubeconfigs(runner, client)
            await objects.apply_nodes(client, cluster, f"v{cluster.kubernetes or runner.plan.kubernetes}.0")
            needed = (*node_components(runner.plan), CONTROLLER_MANAGER, SCHEDULER, APISERVER, ETCD)
            await runner.wait("nodes ready", lambda: objects.is_usable(client, cluster), *needed)
            await objects.name_pod_ranges(client, cluster)
            await runner.started(SCHEDULER)
    except KubeError as error:
        raise SandboxError(f"cluster {cluster.name}: {error}") from error
    task.update(3, STEPS, "agent and webhook")
    await start_agents(runner)
    runner.require(components(runner.plan).values())
    task.finish(f"ready at {cluster.server}")


async def start_agents(runner: Runner) -> None:
    """Start the cluster's webhook, agent and candidate scheduler if planned. Wait until all are ready."""
    ours = (WEBHOOK, AGENT, SECOND_AGENT, CANDIDATE_SCHEDULER)
    wanted = [component for component in ours if component.name in components(runner.plan)]
    if CANDIDATE_SCHEDULER in wanted:
        pki = runner.directory / "pki"
        url = f"http://{runner.cluster.extender}"
        configuration = scheduler_configuration(str(pki / "kube-scheduler.kubeconfig"), url)
        _write_private(runner.directory / CANDIDATE_SCHEDULER_CONFIG, json.dumps(configuration, indent=1).encode())
    for component in wanted:
        runner.start(component)
    for component in wanted:
        await runner.started(component)


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
