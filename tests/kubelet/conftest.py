"""Fixtures for tests of the kubelet API."""

from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from agent.api.names import virtual_node
from agent.kube.client import Client
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, kubeconfig, tear_away
from tests.kubelet.places import Kubelet, host_facing, place, real_node, remove
from tests.kubelet.scenes import CONTROLLERS, Scene, ready, served
from tests.runtime.test_health import free_port
from tests.waiting import until


@pytest.fixture
async def kubelet(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Kubelet]:
    async with real_node(cluster, client, f"{namespace}-real") as kubelet:
        yield kubelet


@pytest.fixture
async def scene(cluster: Cluster, client: Client, namespace: str, kubelet: Kubelet) -> AsyncIterator[Scene]:
    address = host_facing(cluster)
    async with running(cluster, *CONTROLLERS, node_address=address, kubelet_port=free_port(address)) as deps:
        for name in ("c1", "c2"):
            await add(client, namespace, name, kubeconfig(cluster))
            await served(client, virtual_node(namespace, name))
        await until(lambda: ready(deps, (namespace, "c1"), (namespace, "c2")))
        web = await place(client, deps, namespace, "web", virtual_node(namespace, "c1"), kubelet)
        try:
            yield Scene(client, deps, namespace, address, kubelet, web)
        finally:
            await remove(client, namespace)
            await tear_away(client, namespace)
            for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
                for obj in await client.list(kind):
                    if obj["metadata"]["name"].startswith(namespace):
                        await client.delete(kind, obj["metadata"]["name"])
