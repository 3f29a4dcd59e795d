"""Local ports on a real API server: the share of one GatewayPeer in the ports of all namespaces."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import EVENTS, GATEWAY_PEERS, NAMESPACES, SERVICES
from agent.api.names.links import LABEL_HEADLESS_OF, PEER_SERVICES_LIMIT
from agent.kube.client import Client
from agent.kube.errors import Invalid
from agent.model.gatewayhosts import every_local
from agent.model.localports import SOURCE_LIMIT
from agent.services.gateways import GatewaySlicesController
from agent.services.gateways.hosts import CREATED_AT_ONCE
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.namespaces import clear
from tests.stalls import StallWatch
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

TENANT, OTHER = "uid-of-tenant-a", "uid-of-tenant-b"
MOST = [{"name": f"p{number}", "port": number} for number in range(1, 101)]


async def service(client: Client, namespace: str, name: str, ports: list[Raw], source: str) -> None:
    labels = {names.LABEL_PARENT_CLUSTER_UID: source}
    await client.create(SERVICES, {"metadata": {"name": name, "labels": labels}, "spec": {"ports": ports}}, namespace)


async def peer(client: Client, namespace: str, called: list[Raw], source: str, name: str = "eu") -> None:
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name}
    metadata = {"name": name, "labels": {names.LABEL_PARENT_CLUSTER_UID: source}}
    spec = {"uid": f"uid-of-{name}", "ca": "CA", "services": called}
    await client.create(GATEWAY_PEERS, {**head, "metadata": metadata, "spec": spec}, namespace)


async def programmed(client: Client, namespace: str, reason: str) -> Raw:
    """Return the GatewayPeer, once its condition Programmed has this reason."""

    async def probe() -> Raw:
        found = await client.get(GATEWAY_PEERS, "eu", namespace)
        said = find_condition((found.get("status") or {}).get("conditions"), "Programmed") or {}
        return found if said.get("reason") == reason else {}

    return await until(probe, what=f"the GatewayPeer says {reason}")


async def test_a_tenant_takes_its_quota_of_local_ports_and_nothing_for_services_that_do_not_exist(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    other = f"{namespace}-b"
    await client.create(NAMESPACES, {"metadata": {"name": other}})
    ghosts = [{"name": f"ghost-{number:02}", "ports": MOST, "ready": 512} for number in range(60)]
    web = [{"name": "web", "ports": [{"name": "http", "port": 80}], "ready": 1}]
    async with running(cluster, GatewaySlicesController):
        await peer(client, namespace, ghosts, TENANT)
        none = await programmed(client, namespace, "NoService")
        assert every_local(none) == set()

        every = [f"s{number:02}" for number in range(SOURCE_LIMIT // 100 + 2)]
        await asyncio.gather(*(service(client, namespace, name, MOST, TENANT) for name in every))
        called = [{"name": name, "ports": MOST, "ready": 512} for name in every]
        await client.patch(GATEWAY_PEERS, "eu", {"spec": {"services": called}}, namespace)
        full = await programmed(client, namespace, "NoPort")

        async def quota_is_used() -> bool:
            full.update(await client.get(GATEWAY_PEERS, "eu", namespace))
            return len(every_local(full)) == SOURCE_LIMIT

        await until(quota_is_used, what="the tenant has what its quota permits")
        said = find_condition(full["status"]["conditions"], "Programmed") or {}
        assert said["message"].startswith("no local ports for s80, s81: its source has")
        assert f"of {SOURCE_LIMIT} local ports in namespace {namespace}: share fewer Services" in said["message"]

        async def emitted() -> bool:
            events = await client.list(EVENTS, namespace, fields="involvedObject.kind=GatewayPeer,reason=NoPort")
            return any(each["message"] == said["message"] for each in events)

        await until(emitted, what="an event says so")

        await service(client, other, "web", [{"name": "http", "port": 80}], OTHER)
        await peer(client, other, web, OTHER)
        served = await programmed(client, other, "Programmed")
        assert len(every_local(served)) == 1

        # The tenant's other ports stay in the same order, while another of its GatewayPeers gets none.
        await peer(client, namespace, called[:1], TENANT, "us")

        async def refused() -> bool:
            status = (await client.get(GATEWAY_PEERS, "us", namespace)).get("status") or {}
            found = find_condition(status.get("conditions"), "Programmed") or {}
            return bool(found.get("reason") == "NoPort" and not status.get("services"))

        await until(refused, what="the second GatewayPeer gets no local ports")
        assert (await client.get(GATEWAY_PEERS, "eu", namespace))["status"]["services"] == full["status"]["services"]
    await clear(client, other)


async def test_a_list_of_services_that_is_too_long_is_refused_with_the_field_and_the_limit(
    client: Client, namespace: str
) -> None:
    port = [{"port": 80}]
    many = [{"name": f"s{number}", "ports": port} for number in range(PEER_SERVICES_LIMIT + 1)]
    with pytest.raises(Invalid, match=f"spec.services.*{PEER_SERVICES_LIMIT}"):
        await peer(client, namespace, many, TENANT)
    await peer(client, namespace, many[:-1], TENANT)


async def test_services_for_many_hosts_are_created_one_turn_after_the_other(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    labels = {names.LABEL_PARENT_CLUSTER_UID: TENANT}
    headless = {"clusterIP": "None", "ports": [{"name": "tcp", "port": 5432}]}
    await client.create(SERVICES, {"metadata": {"name": "db", "labels": labels}, "spec": headless}, namespace)
    hosts = [{"name": f"db-{number}", "ready": 1} for number in range(CREATED_AT_ONCE + 5)]
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name}
    told = [{"name": "db", "ports": [{"name": "tcp", "port": 5432}], "hosts": hosts}]
    spec = {"uid": "uid-of-eu", "ca": "CA", "headless": told}
    metadata = {"name": "eu", "labels": labels}
    await client.create(GATEWAY_PEERS, {**head, "metadata": metadata, "spec": spec}, namespace)

    async def all_have_ports() -> bool:
        made = await client.list(SERVICES, namespace, labels=f"{LABEL_HEADLESS_OF}=db")
        found = (await client.get(GATEWAY_PEERS, "eu", namespace)).get("status") or {}
        return len(made) == len(found.get("headless") or ()) == len(hosts)

    async with running(cluster, GatewaySlicesController, gateway_headless=True):
        await until(all_have_ports, what="every host has a Service and a local port")
        await programmed(client, namespace, "Programmed")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_large_gateway_peer_does_not_hold_up_the_agent(
    client: Client, cluster: Cluster, namespace: str
) -> None:
    # For much larger objects the API server itself exceeds the request timeout.
    ports = [{"port": 10_000 + number} for number in range(10)]
    ghosts = [{"name": f"g{number}", "ports": ports, "ready": 512} for number in range(2_000)]
    async with running(cluster, GatewaySlicesController):
        async with StallWatch() as watch:
            await peer(client, namespace, ghosts, TENANT)
            await programmed(client, namespace, "NoService")
        assert watch.flaw() == ""
