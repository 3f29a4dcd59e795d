"""Pods on virtual nodes of a real cluster, which is both source and target.

Delegates are on a node with a test kubelet, which records the requests of the target's API server and streams
bytes.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from agent.api import names
from agent.api.kinds import CHAPERONS, NODES, PODS
from agent.clusters.deps import Deps
from agent.kube import http_headers
from agent.kube.channel import Channel, ChannelClosed
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.kube.streams import Answer, ask, connect
from hack.lab.sandbox import Cluster
from tests.kube.channels import server_tls
from tests.kubelet.serving import anybody, say
from tests.waiting import until

Raw = dict[str, Any]

CONTAINERS = [{"name": "main", "image": "busybox"}, {"name": "side", "image": "busybox"}]


def host_facing(cluster: Cluster) -> str:
    """Return the address of this machine that the cluster's API server can reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((cluster.address, 9))
        return str(probe.getsockname()[0])


@dataclass
class Kubelet:
    """Kubelet of a node that answers logs with `log` and echoes data on upgraded connections."""

    node: str
    log: bytes = b"hello\n"
    asked: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    """Paths with their queries, as requested."""
    endless: bool = False
    """Whether logs have no end."""
    open: int = 0
    """Number of upgraded connections and endless logs."""

    async def serve(self, channel: Channel) -> None:
        with contextlib.suppress(OSError):
            await channel.start_tls(server_tls(), server_side=True)
            start, headers = http_headers.split(await channel.read_until(http_headers.END, 1 << 20))
            url = urlsplit(start.split(" ")[1])
            self.asked.append((url.path, parse_qsl(url.query)))
            if headers.get("Upgrade"):
                await self._echo(channel, headers)
            else:
                await channel.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + self.log)
                await self._stay(channel)
        channel.close()

    async def _stay(self, channel: Channel) -> None:
        if not self.endless:
            return
        self.open += 1
        try:
            await channel.gone()
        finally:
            self.open -= 1

    async def _echo(self, channel: Channel, headers: http_headers.Headers) -> None:
        answer = [("Connection", "Upgrade"), ("Upgrade", headers.get("Upgrade"))]
        await channel.write(http_headers.render("HTTP/1.1 101 Switching Protocols", answer))
        self.open += 1
        try:
            while data := await channel.read(1 << 16):
                await channel.write(data)
        except ChannelClosed:
            return
        finally:
            self.open -= 1


@contextlib.asynccontextmanager
async def real_node(cluster: Cluster, client: Client, name: str) -> AsyncIterator[Kubelet]:
    """Create a node of the cluster with a test kubelet."""
    kubelet, tasks = Kubelet(name), set[asyncio.Future[None]]()

    def accepted(channel: Channel) -> None:
        tasks.add(asyncio.ensure_future(kubelet.serve(channel)))

    server = await asyncio.get_running_loop().create_server(lambda: Channel(accepted), "0.0.0.0", 0)
    endpoint = {"kubeletEndpoint": {"Port": server.sockets[0].getsockname()[1]}}
    address = {"type": "InternalIP", "address": host_facing(cluster)}
    await client.create(
        NODES, {"metadata": {"name": name}, "status": {"addresses": [address], "daemonEndpoints": endpoint}}
    )
    try:
        yield kubelet
    finally:
        await client.delete(NODES, name)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)


@dataclass(frozen=True)
class Placed:
    """Proxy pod with all objects that belong to it."""

    proxy: Raw
    chaperon: Raw
    delegate: Raw


async def place(client: Client, deps: Deps, namespace: str, name: str, node: str, kubelet: Kubelet) -> Placed:
    """Create a proxy pod bound to a virtual node, and its delegate on a node with a kubelet."""
    spec = {"containers": CONTAINERS, "nodeName": node, "schedulerName": names.SCHEDULER_PROXY}
    proxy = await client.create(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    await _running(client, namespace, name)
    uid = proxy["metadata"]["uid"]
    metadata = {
        "name": names.chaperon(name, uid),
        "namespace": namespace,
        "labels": {names.LABEL_PARENT_UID: uid, names.LABEL_PARENT_CLUSTER_UID: deps.cluster_uid},
        "annotations": {names.ANNOTATION_PARENT_NAME: name, names.ANNOTATION_PARENT_NAMESPACE: namespace},
    }
    head = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}
    chaperon = await client.create(CHAPERONS, {**head, "metadata": metadata, "spec": {"containers": CONTAINERS}})
    delegate = await make_delegate(client, chaperon, kubelet)
    await until(lambda: _known(deps, (namespace, name)))
    return Placed(proxy, chaperon, delegate)


async def make_delegate(client: Client, chaperon: Raw, kubelet: Kubelet, *, foreign: bool = False) -> Raw:
    """Create the pod that the target's agent makes of a chaperon, or a foreign pod of the same name."""
    name, namespace = chaperon["metadata"]["name"], chaperon["metadata"]["namespace"]
    owner = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "name": name,
        "uid": chaperon["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": name, "namespace": namespace, "labels": chaperon["metadata"]["labels"]}
    if not foreign:
        metadata["ownerReferences"] = [owner]
    spec = {"containers": CONTAINERS, "nodeName": kubelet.node}
    delegate = await client.create(PODS, {"metadata": metadata, "spec": spec})
    await _running(client, namespace, name)
    return delegate


async def upgraded(client: Client, path: str, query: list[tuple[str, str]], protocol: str = "SPDY/3.1") -> Answer:
    """Return the API server's answer to a request for a stream."""
    channel = await connect(client.session)
    headers = [("Connection", "Upgrade"), ("Upgrade", protocol)]
    method = "POST"
    if protocol == "websocket":
        method = "GET"
        headers += [
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Protocol", "v4.channel.k8s.io"),
        ]
    else:
        headers += [("X-Stream-Protocol-Version", "v4.channel.k8s.io"), ("Content-Length", "0")]
    return await ask(client.session, channel, method, path, query, headers, resource="test", timeout=20)


async def refusal(client: Client, path: str) -> str:
    """Return the refusal of a stream as the API server passes it on."""
    query = [("container", "main"), ("command", "sh"), ("stdout", "true")]
    answer = await upgraded(client, path, query)
    text = b""
    while len(text) < int(answer.headers.get("Content-Length")):
        text += await answer.channel.read(1 << 16)
    answer.channel.close()
    return text.decode()


async def directly(address: str, port: int, path: str, token: str = "", method: str = "GET", *lines: str) -> Any:
    """Return status and body of the kubelet API's own answer."""
    _, channel = await asyncio.get_running_loop().create_connection(Channel, address, port)
    try:
        await channel.start_tls(anybody())
        extra = [("Authorization", f"Bearer {token}")] if token else []
        extra += [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        return await say(channel, http_headers.render(f"{method} {path} HTTP/1.1", [("Host", "node"), *extra]))
    finally:
        channel.close()


async def _running(client: Client, namespace: str, name: str) -> None:
    """Set the pod's status to running, as a kubelet does."""
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    await client.patch(PODS, name, {"status": status}, namespace, sub="status")


async def _known(deps: Deps, pod: tuple[str, str]) -> bool:
    return bool(deps.chaperons.of(pod))


async def remove(client: Client, namespace: str) -> None:
    """Delete pods and chaperons of a namespace, in which no kubelet ends pods."""
    for kind in (PODS, CHAPERONS):
        for obj in await client.list(kind, namespace):
            with contextlib.suppress(NotFound):
                await client.delete(kind, obj["metadata"]["name"], namespace, grace=0)
