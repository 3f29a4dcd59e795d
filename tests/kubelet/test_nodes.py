"""Certificate and ports of virtual nodes, with a real signer or none."""

import asyncio
import base64
import contextlib
import ssl

import pytest

from agent.api.conditions import find_condition
from agent.api.kinds import CERTIFICATE_REQUESTS, EVENTS, NODES, PODS
from agent.api.names import KUBELET_SIGNER, virtual_node
from agent.base.certificates import new_key
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.kubelet import certificate
from agent.kubelet.controller import KubeletController
from agent.targets.target import TargetController
from agent.targets.virtual_node import VirtualNodeController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, kubeconfig, tear_away
from tests.kubelet.places import Kubelet, directly, host_facing, place, remove, upgraded
from tests.kubelet.scenes import CONTROLLERS, Scene, condition, ready, served
from tests.runtime.test_health import free_port
from tests.waiting import until

pytestmark = [pytest.mark.cluster]


class Renewals:
    """Only the first certificate is renewed immediately."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, *args: object) -> float:
        self.asked += 1
        return 2.0 if self.asked == 1 else 1_000.0


@pytest.fixture
def renewals(monkeypatch: pytest.MonkeyPatch) -> Renewals:
    renewals = Renewals()
    monkeypatch.setattr(certificate, "renew_in", renewals)
    return renewals


async def test_the_serving_certificate_is_signed_and_renewed_with_connections_open(
    renewals: Renewals, scene: Scene, cluster: Cluster
) -> None:
    query = [("container", "main"), ("command", "sh"), ("stdin", "true"), ("stdout", "true")]
    answer = await upgraded(scene.client, scene.path("exec"), query)
    assert answer.status == 101
    await until(lambda: renewals.asked == 2)
    assert await scene.logs() == scene.kubelet.log
    answer.channel.send(b"still there|")
    assert await answer.channel.read_until(b"|", 100) == b"still there|"
    answer.channel.close()
    # It blocks, and this process answers it.
    presented = await asyncio.to_thread(ssl.get_server_certificate, (scene.address, scene.port()))
    issued = [each["status"].get("certificate") for each in await scene.client.list(CERTIFICATE_REQUESTS)]
    der = [ssl.PEM_cert_to_DER_cert(base64.b64decode(each).decode()) for each in issued if each]
    assert ssl.PEM_cert_to_DER_cert(presented) in der


async def test_a_request_that_its_agent_did_not_live_to_approve_is_denied_by_the_next(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    address = host_facing(cluster)
    signed_elsewhere = certificate.request(new_key(), address, "example.com/nobody")
    left = [
        await client.create(CERTIFICATE_REQUESTS, manifest)
        for manifest in (certificate.request(new_key(), address, KUBELET_SIGNER), signed_elsewhere)
    ]

    async def denials() -> list[bool]:
        found = [await client.get(CERTIFICATE_REQUESTS, each["metadata"]["name"]) for each in left]
        return [find_condition(each["status"].get("conditions"), "Denied") is not None for each in found]

    async with running(cluster, *CONTROLLERS, node_address=address, kubelet_port=free_port(address)):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await served(client, virtual_node(namespace, "c1"))

        async def over() -> bool:
            return (await denials())[0]

        await until(over)
    assert await denials() == [True, False]
    for each in left:
        await client.delete(CERTIFICATE_REQUESTS, each["metadata"]["name"])
    await tear_away(client, namespace)


async def test_a_node_keeps_its_port_over_restarts_of_the_agent(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    address = host_facing(cluster)
    first = free_port(address)
    ports = []
    for _ in range(2):
        async with running(cluster, *CONTROLLERS, node_address=address, kubelet_port=first):
            for name in ("c2", "c1") if not ports else ():
                await add(client, namespace, name, kubeconfig(cluster))
                await served(client, virtual_node(namespace, name))
            found = [await served_port(client, virtual_node(namespace, name)) for name in ("c1", "c2")]
            ports.append(found)
    assert ports[0] == ports[1]
    assert len(set(ports[0])) == 2
    await tear_away(client, namespace)


class Twice(KubeletController):
    """Server that ends once, as after a failure, and is restarted."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self.fails, self.failed, self.goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        first = asyncio.ensure_future(super().run())
        await self.fails.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        self.failed.set()
        await self.goes_on.wait()
        await super().run()


async def test_nodes_are_served_again_after_a_failure(cluster: Cluster, client: Client, namespace: str) -> None:
    address = host_facing(cluster)
    controllers: list[Twice] = []

    def twice(deps: Deps) -> Twice:
        controllers.append(Twice(deps))
        return controllers[0]

    settings = {"node_address": address, "kubelet_port": free_port(address)}
    async with running(cluster, TargetController, VirtualNodeController, twice, **settings):
        await add(client, namespace, "c1", kubeconfig(cluster))
        port = await served_port(client, virtual_node(namespace, "c1"))

        async def answers() -> bool:
            with contextlib.suppress(OSError):
                return (await directly(address, port, "/healthz"))[0] == 401
            return False

        await until(answers)
        controllers[0].fails.set()
        await controllers[0].failed.wait()
        assert not await answers()
        controllers[0].goes_on.set()
        await until(answers)
    await tear_away(client, namespace)


async def served_port(client: Client, node: str) -> int:
    await served(client, node)
    port: int = (await client.get(NODES, node))["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    return port


async def test_where_nobody_signs_a_condition_and_an_event_say_so_and_the_rest_works(
    cluster: Cluster, client: Client, namespace: str, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "SIGN_SECONDS", 0.5)
    address = host_facing(cluster)
    settings = {"node_address": address, "kubelet_port": free_port(address), "kubelet_signer": "example.com/nobody"}
    node = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS, **settings) as deps:
        await add(client, namespace, "c1", kubeconfig(cluster))
        found = await condition(client, node, "False")
        assert found["reason"] == "NoCertificate"
        assert "signer example.com/nobody has not signed" in found["message"]
        await until(lambda: warned(client, node))
        await until(lambda: ready(deps, (namespace, "c1")))
        await place(client, deps, namespace, "web", node, kubelet)
        log = await client.session.request("GET", PODS.path(namespace, "web", "log"), params={"container": "main"})
        assert log == kubelet.log
    await remove(client, namespace)
    await tear_away(client, namespace)


async def test_a_node_that_comes_after_nobody_has_signed_has_the_event_too_and_so_has_the_next_of_its_name(
    cluster: Cluster,
    client: Client,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(certificate, "SIGN_SECONDS", 0.1)
    address = host_facing(cluster)
    settings = {"node_address": address, "kubelet_port": free_port(address), "kubelet_signer": "example.com/nobody"}
    async with running(cluster, *CONTROLLERS, **settings):
        await until(lambda: "has not signed" in caplog.text)
        await add(client, namespace, "late", kubeconfig(cluster))
        node = virtual_node(namespace, "late")
        await until(lambda: warned(client, node))
        await client.delete(NODES, node)
        await until(lambda: warned(client, node))
    await tear_away(client, namespace)


async def warned(client: Client, name: str) -> bool:
    """Return whether the current node of this name has the Event; False without a node."""
    uids = {node["metadata"]["uid"] for node in await client.list(NODES, fields=f"metadata.name={name}")}
    events = await client.list(EVENTS, "default", fields=f"involvedObject.name={name},reason=NoCertificate")
    return bool(uids & {event["involvedObject"]["uid"] for event in events})


async def test_without_an_address_a_condition_says_what_to_set(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS, node_address="somewhere"):
        await add(client, namespace, "c1", kubeconfig(cluster))
        found = await condition(client, virtual_node(namespace, "c1"), "False")
        assert found["reason"] == "NoAddress"
        assert "--node-address" in found["message"]
    await tear_away(client, namespace)
