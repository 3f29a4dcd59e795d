"""Affinity `local` of Services behind gateways, on real API servers; gateways do not run."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, CRDS, ENDPOINT_SLICES, GATEWAY_PEERS, NODES, SERVICES
from agent.api.names.links import ANNOTATION_GATEWAY, GATEWAY_SERVICE, GATEWAY_SLICE_MANAGER
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.model.gatewaytold import Told, write
from agent.services.copies import GlobalServices
from agent.services.gateways import GatewayPeersController, GatewaySlicesController
from agent.services.gateways.peerwriter import WRITE_SECONDS
from agent.services.links import ServiceLinksController
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, shared_with_eu
from tests.controllers.services.test_gateways import HOME, gateway_pod
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

GATEWAY = "gw"


@pytest_asyncio.fixture
async def gateways(pair: Pair) -> AsyncIterator[Pair]:
    """Create one gateway pod in each cluster, with its Service and ClusterSummary."""
    clients = (pair.here, pair.there)
    for number, client in enumerate(clients):
        await gateway_pod(client, GATEWAY)
        told = write(Told("CA", (f"203.0.113.{number}:443",)))
        annotations = {ANNOTATION_GATEWAY: told, names.ANNOTATION_CLUSTER_UID: f"cluster-{number}"}
        head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
        await client.create(
            CLUSTER_SUMMARIES, {**head, "metadata": {"name": names.SUMMARY_NAME, "annotations": annotations}}
        )
    try:
        yield pair
    finally:
        for client in clients:
            await client.delete(ENDPOINT_SLICES, GATEWAY_SERVICE, HOME)
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)


async def answers(client: Client, namespace: str) -> None:
    """Report, as a gateway does, that it listens on all wanted ports and that the peer answers."""

    async def listens() -> list[int]:
        found = await client.list(GATEWAY_PEERS, namespace)
        told = [each for peer in found for each in (peer.get("status") or {}).get("services") or ()]
        return [local for each in told for port in each["ports"] for local in port["locals"]]

    ports = await until(listens, what="ports are allotted")
    (peer,) = await client.list(GATEWAY_PEERS, namespace)
    says = {"reason": "Connected", "healthy": 1, "total": 1, "listens": ports}
    name = peer["metadata"]["name"]
    await client.patch(GATEWAY_PEERS, name, {"status": {"gateways": {GATEWAY: says}}}, namespace, sub="status")


async def led(client: Client, namespace: str, *, ready: bool) -> Raw:
    """Return the slice that points to the gateway, once its readiness is as wanted."""

    async def probe() -> Raw | None:
        labels = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
        found = await client.list(ENDPOINT_SLICES, namespace, labels=labels)
        told = [each["endpoints"][0]["conditions"]["ready"] for each in found]
        last[:] = told
        return found[0] if told == [ready] else None

    last: list[Any] = []
    try:
        return await until(probe, what=f"callers are {'' if ready else 'not '}sent to the gateway") or {}
    except AssertionError as error:
        peers = [(each["spec"], each.get("status")) for each in await client.list(GATEWAY_PEERS, namespace)]
        raise AssertionError(f"{error}: {last}, {peers}") from None


async def offered_by_both(pair: Pair, links: Links) -> None:
    """Give each cluster a ready endpoint of `web` and gateways that answer those of the other cluster."""
    await links.shared_by("True", "Gateway")
    await pair.copy(SERVICES, "web")
    for client in (pair.here, pair.there):
        await links.offer(client, "10.9.0.1")
    for client in (pair.here, pair.there):
        await answers(client, pair.namespace)


async def become(pair: Pair, client: Client, **fields: Any) -> None:
    """Replace the cluster's own endpoint."""
    body = {"endpoints": [{"addresses": ["10.9.0.1"], "conditions": {"ready": True}, **fields}]}
    await client.patch(ENDPOINT_SLICES, "web-own", body, pair.namespace)


async def test_callers_stay_in_a_cluster_that_has_ready_endpoints_of_its_own(gateways: Pair) -> None:
    pair, clients = gateways, (gateways.here, gateways.there)
    async with contextlib.AsyncExitStack() as stack:
        start = stack.enter_async_context
        await start(shared_with_eu(pair))
        await start(running(pair.clusters[1], GatewaySlicesController, gateway=True))
        controllers = (GatewaySlicesController, GatewayPeersController, GlobalServices, ServiceLinksController)
        await start(pair.at_work(*controllers, gateway=True, service_links=True))
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await offered_by_both(pair, links)
        for client in clients:
            await led(client, pair.namespace, ready=True)

        # Requested by the Service, locally and in the cluster of its copy.
        await links.annotate(affinity="local")
        for client in clients:
            await led(client, pair.namespace, ready=False)
        # The last endpoint of one cluster becomes unready, and returns: only that cluster is affected.
        await become(pair, pair.there, conditions={"ready": False})
        await led(pair.there, pair.namespace, ready=True)
        await led(pair.here, pair.namespace, ready=False)
        await become(pair, pair.there)
        await led(pair.there, pair.namespace, ready=False)
        await pair.there.delete(ENDPOINT_SLICES, "web-own", pair.namespace)
        await led(pair.there, pair.namespace, ready=True)
        await links.offer(pair.there, "10.9.0.2")
        await led(pair.there, pair.namespace, ready=False)

        # The link's affinity has precedence over the Service's; values other than `local` have no effect.
        for affinity in ("remote", "none"):
            await links.change(affinity=affinity)
            for client in clients:
                await led(client, pair.namespace, ready=True)
            await links.change(affinity="local")
            for client in clients:
                await led(client, pair.namespace, ready=False)
        await links.change(affinity=None)
        await links.annotate(affinity=None)
        for client in clients:
            await led(client, pair.namespace, ready=True)


async def test_what_waits_waits_while_the_agent_is_away_and_afterwards(gateways: Pair) -> None:
    pair, namespace = gateways, gateways.namespace
    here = pair.here

    async def at_work(stack: contextlib.AsyncExitStack) -> Deps:
        return await stack.enter_async_context(running(pair.clusters[0], GatewaySlicesController, gateway=True))

    async def programmed(*names_of: str) -> bool:
        found = {each["metadata"]["name"] for each in await here.list(GATEWAY_PEERS, namespace) if "status" in each}
        return found >= set(names_of)

    labels = {names.LABEL_PARENT_CLUSTER_UID: "source"}
    ports = [{"name": "http", "port": 80}]
    services = [{"name": "web", "ports": ports, "ready": 1}]
    peer = {"uid": "u", "ca": "c", "addresses": ["203.0.113.9:443"], "localAffinity": ["web"]}
    await pair.create(SERVICES, "web", metadata={"labels": labels}, spec={"ports": ports})
    own = {
        "metadata": {"name": "web-own", "labels": {names.LABEL_SERVICE_NAME: "web", **labels}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.0.1"], "conditions": {"ready": True}}],
    }
    await here.create(ENDPOINT_SLICES, own, namespace)
    await pair.create(GATEWAY_PEERS, "eu", metadata={"labels": labels}, spec={**peer, "services": services})
    async with contextlib.AsyncExitStack() as stack:
        await at_work(stack)
        await answers(here, namespace)
        before = await led(here, namespace, ready=False)
    async with contextlib.AsyncExitStack() as stack:
        node = names.virtual_node(namespace, "eu")
        await here.create(NODES, {"metadata": {"name": node, "labels": {names.PROVIDER_KEY: names.PROVIDER_VALUE}}})
        stack.push_async_callback(here.delete, NODES, node)
        await at_work(stack)
        await pair.create(GATEWAY_PEERS, "us", metadata={"labels": labels}, spec={**peer, "uid": "v"})
        await until(lambda: programmed("eu", "us"))
        after = await led(here, namespace, ready=False)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

        # The source publishes a proxy pod's endpoint, and a mirrored endpoint belongs to another cluster.
        await become(pair, here, nodeName=node)
        await led(here, namespace, ready=True)
        mirror = {"labels": {names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER}}
        await become(pair, here)
        await led(here, namespace, ready=False)
        await here.patch(ENDPOINT_SLICES, "web-own", {"metadata": mirror}, namespace)
        await led(here, namespace, ready=True)


@contextlib.asynccontextmanager
async def older(client: Client, namespace: str) -> AsyncIterator[None]:
    """Install a CRD of GatewayPeers without affinity."""
    crd = f"{GATEWAY_PEERS.plural}.{GATEWAY_PEERS.group}"
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
    known = (await client.get(CRDS, crd))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

    async def keeps() -> bool:
        made = await client.create(GATEWAY_PEERS, probe, namespace)
        await client.delete(GATEWAY_PEERS, "probe", namespace)
        return "localAffinity" in made["spec"]

    async def drops() -> bool:
        return not await keeps()

    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name, "metadata": {"name": "probe"}}
    probe = {**head, "spec": {"uid": "u", "ca": "c", "localAffinity": ["web"]}}
    field = {"path": f"{path}/localAffinity"}
    await client.patch(CRDS, crd, [{"op": "remove", **field}], style="json")
    try:
        await until(drops)
        yield
    finally:
        body = [{"op": "add", "value": known["properties"]["localAffinity"], **field}]
        await client.patch(CRDS, crd, body, style="json")
        await until(keeps)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_an_older_crd_drops_all_of_it_and_is_not_asked_again_and_again(
    gateways: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, asked = gateways, list[str]()
    async with contextlib.AsyncExitStack() as stack:
        start = stack.enter_async_context
        await start(older(pair.there, pair.namespace))
        await start(shared_with_eu(pair))
        await start(running(pair.clusters[1], GatewaySlicesController, gateway=True))
        target = await start(
            pair.at_work(GatewaySlicesController, GatewayPeersController, GlobalServices, gateway=True)
        )
        patch = target.port.patch_raw

        async def counted(kind: Any, name: str, *args: Any, **options: Any) -> bytes:
            if kind == GATEWAY_PEERS:
                asked.append(name)
            return await patch(kind, name, *args, **options)

        monkeypatch.setattr(target.port, "patch_raw", counted)
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.annotate(affinity="local")
        await offered_by_both(pair, links)
        await led(pair.here, pair.namespace, ready=False)
        await led(pair.there, pair.namespace, ready=True)
        await asyncio.sleep(2 * WRITE_SECONDS)
        before = len(asked)
        for number in range(4):
            await links.annotate(said=str(number))
            await asyncio.sleep(2 * WRITE_SECONDS)
        assert len(asked) <= before + 1
