"""Sandbox whose agents, webhooks and candidate schedulers run as pods that the chart installs.

Each cluster has one real node for these pods and fake nodes for all other pods. Tests kill the processes of
these containers with signals from outside, and stop and start them by scaling their Deployments.
"""

import asyncio
import contextlib
import datetime
import functools
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from agent.api.kinds import CLUSTER_ROLES, CRDS, DEPLOYMENTS, LEASES, PODS
from agent.kube.client import Client
from agent.kube.errors import KubeError
from hack.lab.sandbox import Cluster, Sandbox, SandboxError, ownimage, process
from hack.lab.sandbox.gateways import program as envoy
from hack.lab.sandbox.objects import connect
from tests.chart import helm
from tests.chart.helm import NAMESPACE
from tests.e2e.containers import PROGRAMS, RELEASE, InstalledCluster
from tests.e2e.values import ENVOY, IMAGE, REPLICAS, SCHEDULER, TAG, values
from tests.waiting import until

Raw = dict[str, Any]

KILL_SECONDS, START_SECONDS = 20.0, 120.0


class Installed(Sandbox):
    """A `Sandbox` with the chart installed in each cluster. `images` is a folder that caches image files across
    sandboxes.

    `chart_values` are KEY=VALUE settings, in addition to those derived from `agent_flags`. With `gateways`,
    each cluster runs a gateway at ports of its node.
    """

    def __init__(
        self,
        directory: Path,
        clusters: Sequence[str],
        nodes: str = "kwok:5",
        *,
        images: Path,
        chart_values: Sequence[str] = (),
        agent_flags: Sequence[str] = (),
        candidate_scheduler: bool = False,
        gateways: bool = False,
        **more: Any,
    ) -> None:
        mixed = nodes if nodes.startswith("real") else f"real:1+{nodes}"
        super().__init__(directory, clusters, mixed, agents=False, **more)
        self._flags = agent_flags
        self._values = chart_values
        self._bare = not nodes.startswith("real")
        self._with_scheduler = candidate_scheduler
        self._with_gateways = gateways
        self._images = images
        self._freezing: dict[str, asyncio.Task[None]] = {}
        self._killed: set[str] = set()

    @property
    def clusters(self) -> list[InstalledCluster]:
        """The clusters, in the order in which they were named."""
        return [InstalledCluster(self.plan, each, self.directory / each.name) for each in self.plan.clusters]

    async def up(self) -> list[str]:
        """Start the clusters and install the chart in each. Removes everything again if that fails."""
        started = await super().up()
        try:
            for file in await asyncio.to_thread(self._image_files):
                await self.load(file)
            await asyncio.gather(*(self._install(cluster) for cluster in self.clusters))
        except BaseException:
            await self.down()
            raise
        return started

    async def down(self) -> bool:
        """Stop all clusters, their pods included."""
        for freezing in self._freezing.values():
            freezing.cancel()
        return await super().down()

    async def stop(self, cluster: str, name: str) -> None:
        """Stop a process gracefully. A candidate scheduler is frozen instead, since its extender has to keep
        running."""
        if name not in PROGRAMS:
            await super().stop(cluster, name)
        elif name == "candidate-scheduler":
            self._freeze(cluster)
        else:
            await self._scale(cluster, name, 0)
            await until(lambda: not self[cluster].pids(name), START_SECONDS)

    async def kill(self, cluster: str, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a process. A process killed by SIGKILL stays dead until `start`.

        The process is frozen before its Deployment is scaled to 0, and killed afterwards. Otherwise it would
        act in between, or the kubelet would restart it.
        """
        if name not in PROGRAMS:
            await super().kill(cluster, name, number)
            return
        pids = self[cluster].pids(name)
        if not pids:
            raise SandboxError(f"cluster {cluster}: {name} does not run")
        if number != signal.SIGKILL:
            os.kill(pids[-1], number)
            return
        if name == "candidate-scheduler":
            _send(pids, signal.SIGKILL)
            await process.wait_gone(pids, KILL_SECONDS)
            self._freeze(cluster)
            self._killed.add(cluster)
            return
        _send(pids, signal.SIGSTOP)
        try:
            await self._scale(cluster, name, 0)
        finally:
            _send(pids, signal.SIGKILL)
        await process.wait_gone(pids, KILL_SECONDS)

    async def start(self, cluster: str, name: str) -> None:
        """Start a process that was stopped or killed, and wait until it is ready.

        If the container was killed without scaling the Deployment, recreate its pod: the kubelet's restart
        backoff would delay it.
        """
        if name not in PROGRAMS:
            await super().start(cluster, name)
        elif name == "candidate-scheduler":
            await self._thaw(cluster)
        else:
            if self[cluster].pid(name) is None:
                await self._scale(cluster, name, 0)
            await self._scale(cluster, name, REPLICAS)
            async with self._client(cluster) as client:
                await until(lambda: _is_ready(client, name), START_SECONDS)

    async def agents(self, cluster: str, replicas: int) -> dict[str, str]:
        """Scale the agent to `replicas` pods, wait until all are ready, and return their addresses by name."""

        async def addresses() -> dict[str, str]:
            async with self._client(cluster) as client:
                pods = await _pods(client, "agent")
            ready = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods if _says_ready(pod)}
            return ready if len(ready) == len(pods) == replicas else {}

        await self._scale(cluster, "agent", replicas)
        return await until(addresses, START_SECONDS)

    async def metrics(self, cluster: str) -> str:
        """Return the metrics of a cluster's agent (/metrics)."""
        async with self._client(cluster) as client:
            (pod,) = await _pods(client, "agent")
            return (await _ask(client, pod, "metrics")).decode()

    @contextlib.asynccontextmanager
    async def _client(self, cluster: str) -> AsyncIterator[Client]:
        client = connect(self[cluster].kubeconfig, name=cluster)
        async with client.session:
            yield client

    async def _scale(self, cluster: str, name: str, replicas: int) -> None:
        """Set a Deployment's replicas; for 0, wait until all its pods are terminating."""
        component, _ = PROGRAMS[name]
        async with self._client(cluster) as client:
            await client.patch(DEPLOYMENTS, f"{RELEASE}-{component}", {"spec": {"replicas": replicas}}, NAMESPACE)
            if not replicas:
                await until(functools.partial(_none, client, component), START_SECONDS)

    def _freeze(self, cluster: str) -> None:
        """Freeze the candidate scheduler and every later process that replaces it."""
        _send(self[cluster].pids("candidate-scheduler"), signal.SIGSTOP)
        self._freezing[cluster] = asyncio.ensure_future(self._keep_frozen(cluster))

    async def _keep_frozen(self, cluster: str) -> None:
        while True:
            await asyncio.sleep(0.1)
            _send(self[cluster].pids("candidate-scheduler"), signal.SIGSTOP)

    async def _thaw(self, cluster: str) -> None:
        """Resume the candidate scheduler. If the earlier one was killed, wait until the new one has acquired
        its lease."""
        if freezing := self._freezing.pop(cluster, None):
            freezing.cancel()
        await until(lambda: self[cluster].pids("candidate-scheduler"), START_SECONDS)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        _send(self[cluster].pids("candidate-scheduler"), signal.SIGCONT)
        if cluster in self._killed:
            self._killed.discard(cluster)
            async with self._client(cluster) as client:
                await until(lambda: _leads_since(client, now), START_SECONDS)

    def _image_files(self) -> list[Path]:
        """Build the image files needed: the agent's, a candidate scheduler's and Envoy's. Each is built once
        and cached."""
        own = self._images / "own.tar"
        if not own.exists():
            ownimage.build(own, f"{IMAGE}:{TAG}")
        programs = {}
        if self._with_scheduler:
            programs["scheduler.tar"] = (self.plan.programs["kube-scheduler"], SCHEDULER)
        if self._with_gateways:
            programs["envoy.tar"] = (envoy(), ENVOY)
        for name, (program, image) in programs.items():
            if not (self._images / name).exists():
                ownimage.build_program(Path(program), self._images / name, f"{image}:{TAG}")
        return [own, *(self._images / name for name in programs)]

    async def _install(self, cluster: Cluster) -> None:
        async with self._client(cluster.name) as client:
            await _adopt(client)
        file = cluster.directory / "values.json"
        # In a sandbox, agents get this flag too if containers really run.
        own = [] if self._bare else [f"--source-api={cluster.server.removeprefix('https://')}"]
        found = values(
            cluster.name,
            [*own, *self._flags],
            candidate_scheduler=self._with_scheduler,
            gateways=self._with_gateways,
        )
        file.write_text(json.dumps(found))
        more = [flag for value in self._values for flag in ("--set", value)]
        flags = ("-n", NAMESPACE, "--create-namespace", "--wait", "--timeout=4m", "-f", str(file), *more)
        await asyncio.to_thread(helm.run, "install", RELEASE, str(helm.CHART), *flags, kubeconfig=cluster.kubeconfig)


def _send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def _adopt(client: Client) -> None:
    """Make Helm the owner of the CRDs and roles that a sandbox creates before the chart is installed, as the
    chart documents."""
    owner = {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": NAMESPACE}
    metadata = {"annotations": owner, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    for kind in (CRDS, CLUSTER_ROLES):
        for obj in await client.list(kind):
            name = obj["metadata"]["name"]
            if kind is CRDS or name.startswith("multicluster-scheduler-"):
                await client.patch(kind, name, {"metadata": metadata})


async def _pods(client: Client, component: str) -> list[Raw]:
    """Return the pods of a component that are not terminating."""
    pods = await client.list(PODS, NAMESPACE, labels=f"app.kubernetes.io/component={component}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def _none(client: Client, component: str) -> bool:
    return not await _pods(client, component)


async def _is_ready(client: Client, name: str) -> bool:
    """Check that a process reports readiness. The webhook's pod has to be Ready, so that its Service has an
    endpoint."""
    pods = await _pods(client, PROGRAMS[name][0])
    if name == "webhook":
        return any(_says_ready(pod) for pod in pods)
    try:
        return bool(pods and await _ask(client, pods[0], "readyz"))
    except KubeError:
        return False


def _says_ready(pod: Raw) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def _leads_since(client: Client, moment: str) -> bool:
    """Check that a candidate scheduler has renewed its lease after `moment`."""
    lease = await client.get(LEASES, "admiralty-candidate-scheduler", NAMESPACE)
    return str(lease["spec"].get("renewTime", "")) > moment


async def _ask(client: Client, pod: Raw, page: str) -> bytes:
    """Fetch a page of a process through the API server's pod proxy."""
    path = PODS.path(NAMESPACE, f"{pod['metadata']['name']}:8080", "proxy")
    return await client.session.request("GET", f"{path}/{page}")
