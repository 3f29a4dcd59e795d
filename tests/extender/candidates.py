"""Candidates as sources create them, and the extender called as a scheduler calls it."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.api.ownroles import CANDIDATES
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.extender.server import Extender
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import Forbidden
from agent.runtime.supervisor import Supervisor
from agent.settings import Settings
from hack.lab.sandbox import Cluster as SandboxCluster
from hack.lab.sandbox import kubeconfig
from hack.lab.sandbox.objects import account_token, connect
from tests.runtime.test_health import free_port
from tests.waiting import until

Raw = dict[str, Any]

RESERVED, ALLOWED = names.ANNOTATION_IS_RESERVED, names.ANNOTATION_IS_ALLOWED
ROUND, ENDED, HOLD = names.ANNOTATION_RESERVE_ROUND, names.ANNOTATION_RESERVE_ENDED, names.ANNOTATION_HOLD


def chaperon(name: str, *, rounds: bool = True, cpu: str = "1", **spec: Any) -> Raw:
    """Return a candidate's PodChaperon; without `rounds` it is that of an Admiralty source."""
    labels = {names.LABEL_PARENT_UID: f"parent-of-{name}"}
    if rounds:
        labels[names.LABEL_PARENT_CLUSTER_UID] = "source"
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulerName": names.SCHEDULER_CANDIDATE, "containers": [container], **spec},
    }


async def candidate(client: Client, namespace: str, name: str, **more: Any) -> Raw:
    """Create a candidate. Return its pod once the agent has created it."""
    await client.create(CHAPERONS, chaperon(name, **more), namespace)
    return await until(lambda: client.get(PODS, name, namespace))


async def annotations(client: Client, namespace: str, name: str) -> dict[str, str]:
    """Return the annotations of a candidate's chaperon."""
    found = await client.get(CHAPERONS, name, namespace)
    return dict(found["metadata"].get("annotations") or {})


async def annotate(client: Client, namespace: str, name: str, key: str, value: str) -> None:
    """Write one annotation of a chaperon, as sources do."""
    await client.patch(CHAPERONS, name, {"metadata": {"annotations": {key: value}}}, namespace)


async def reserved(client: Client, namespace: str, name: str, *, other_than: str = "") -> str:
    """Wait until a candidate is reserved by a hold other than the named one. Return the hold's mark."""

    async def probe() -> str:
        found = await annotations(client, namespace, name)
        mark = found.get(HOLD, "")
        return mark if RESERVED in found and mark != other_than else ""

    return await until(probe)


async def not_reserved(client: Client, namespace: str, name: str) -> dict[str, str]:
    """Wait until a candidate is no longer reserved. Return its chaperon's annotations."""

    async def probe() -> dict[str, str] | None:
        found = await annotations(client, namespace, name)
        return None if {RESERVED, HOLD} & found.keys() else {"": "", **found}

    return await until(probe)


async def bound(client: Client, namespace: str, name: str) -> str:
    """Wait until a pod has a node. Return the node."""

    async def probe() -> str:
        return str((await client.get(PODS, name, namespace))["spec"].get("nodeName", ""))

    return await until(probe)


class Asker:
    """Client that calls the extender as a kube-scheduler does."""

    def __init__(self, http: aiohttp.ClientSession, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._http = http
        self._url = url
        self._tls = tls

    async def post(self, body: bytes) -> str:
        """Post any body. Return the error in the answer; empty if the pod is bound."""
        more: Raw = {"ssl": self._tls} if self._tls else {}
        async with self._http.post(f"{self._url}/bind", data=body, **more) as answer:
            assert answer.status == 200
            return str((await answer.json())["Error"])

    async def bind(self, pod: Raw, node: str, **other: str) -> str:
        """Bind a pod. Return the answer's error."""
        metadata = pod["metadata"]
        fields = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
        return await self.post(json.dumps({**fields, "Node": node, **other}).encode())

    async def bind_until_not(self, refusal: str, pod: Raw, node: str) -> str:
        """Retry the bind, as a scheduler does, until the extender has observed the change. Return the new answer."""
        while True:
            answer = await self.bind(pod, node)
            if answer != refusal:
                return answer
            await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def binding(self, pod: Raw, node: str, *, past: str = "") -> AsyncIterator[asyncio.Task[str]]:
        """Bind in the background, retried while the answer contains `past`. Leaving cancels it and closes its
        connection."""
        task = asyncio.create_task(self.bind_until_not(past, pod, node) if past else self.bind(pod, node))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def own_kubeconfig(cluster: SandboxCluster) -> Path:
    """Return a kubeconfig of the account of candidate schedulers, once its permissions are in force."""
    file = cluster.directory / "candidates.kubeconfig"
    if file.exists():
        return file
    admin = connect(cluster.kubeconfig)
    async with admin.session:
        token = await account_token(admin, CANDIDATES)
    authority = (cluster.directory / "pki" / "ca.crt").read_bytes()
    file.write_text(kubeconfig.render(cluster.name, cluster.server, authority, token=token))
    own = connect(file)

    async def counts() -> bool:
        await own.list(CHAPERONS)
        return True

    async with own.session:
        await until(counts, forgiven=Forbidden)
    return file


@contextlib.asynccontextmanager
async def serving(cluster: SandboxCluster, **settings: Any) -> AsyncIterator[Asker]:
    """Run an extender with the permissions that the chart grants its account."""
    address = settings.pop("extender_address", f"127.0.0.1:{free_port()}")
    tls = settings.pop("tls", None)
    local = Cluster(load(str(await own_kubeconfig(cluster))), "local")
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        # The event loop needs another step to close a TLS connection.
        stack.push_async_callback(asyncio.sleep, 0.05)
        stack.push_async_callback(local.close)
        supervisor = await stack.enter_async_context(Supervisor("test"))
        extender = Extender(local, SystemClock(), Settings(extender_address=address, **settings))
        await extender.start()
        supervisor.spawn("extender", extender.run)
        yield Asker(http, f"{'https' if tls else 'http'}://{address}", tls)
