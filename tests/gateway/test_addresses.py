"""A gateway process on a real API server: of EndpointSlices that a source may write it hands on its own pods alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, PODS
from agent.gateway.admin import Admin
from agent.gateway.cluster import FromCluster
from agent.gateway.loop import Loop
from agent.gateway.pods import PodAddresses
from agent.kube.client import Client
from agent.model import gatewaypeer
from agent.model.envoyparts import Place
from tests.waiting import until

Raw = dict[str, Any]

TENANT = "uid-of-tenant-a"
FOREIGN = ("10.96.0.1", "168.63.129.16", "192.168.0.10")


@contextlib.asynccontextmanager
async def gateway(client: Client, directory: Path) -> AsyncIterator[Path]:
    """The process beside Envoy, as far as it reads its cluster; gives its input file."""
    path = directory / "gateway.json"
    loop = Loop(Place(str(directory), 15443), path, directory, Admin(str(directory / "admin")))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(task()) for _, task in FromCluster(client, "gw-1", path, loop).tasks()]
        yield path
        for task in tasks:
            task.cancel()


async def pod(client: Client, namespace: str, name: str, address: str, phase: str = "Running") -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "of-no-kubelet"}
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace)
    status = {"phase": phase, "podIP": address, "podIPs": [{"ip": address}]}
    await client.patch(PODS, name, {"status": status}, namespace, sub="status")


async def offered_by(client: Client, namespace: str, *addresses: str) -> None:
    """A Service that a tenant offers to a cluster of its own, and where it says that its pods are."""
    port = {"name": "http", "port": 80}
    spec = {"uid": "uid-of-its-own", "ca": "CA", "offered": [{"name": "door", "ports": [port]}]}
    labels = {names.LABEL_PARENT_CLUSTER_UID: TENANT}
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name}
    await client.create(
        GATEWAY_PEERS, {**head, "metadata": {"name": "mine", "labels": labels}, "spec": spec}, namespace
    )
    slice = {
        "metadata": {"name": "door", "labels": {names.LABEL_SERVICE_NAME: "door", **labels}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [each]} for each in addresses],
    }
    await client.create(ENDPOINT_SLICES, slice, namespace)


def called(path: Path, namespace: str) -> list[str] | None:
    """Endpoints of the tenant's Service in Envoy's input; None while it is not there."""
    if not path.exists():
        return None
    found = msgspec.json.decode(path.read_bytes(), type=gatewaypeer.Gateway).services
    return next((list(each.endpoints) for each in found if (each.namespace, each.name) == (namespace, "door")), None)


def test_addresses_go_with_the_last_pod_that_has_them() -> None:
    found = PodAddresses()
    assert found.replace("shop", frozenset(), {"192.168.0.1"})
    assert found.replace("shop", frozenset(), {"192.168.0.1"})
    assert not found.replace("shop", {"192.168.0.1"}, {"192.168.0.1"})
    assert found.replace("shop", {"192.168.0.1"}, frozenset())
    assert set(found.by_namespace["shop"]) == {"192.168.0.1"}
    assert found.replace("shop", {"192.168.0.1"}, {"10.1.0.5"})
    assert set(found.by_namespace["shop"]) == {"10.1.0.5"}
    assert found.replace("shop", {"10.1.0.5"}, frozenset())
    assert found.by_namespace.get("shop", ()) == ()


@pytest.mark.cluster
async def test_a_tenant_leads_its_gateway_to_its_own_running_pods_only(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    await pod(client, "default", f"of-others-{namespace}", "10.244.7.7")
    await pod(client, namespace, "done", "10.244.7.8", "Succeeded")
    await pod(client, namespace, "mine", "10.244.7.5")
    await offered_by(client, namespace, "10.244.7.5", "10.244.7.6", "10.244.7.7", "10.244.7.8", *FOREIGN)
    async with gateway(client, tmp_path) as path:
        await until(lambda: called(path, namespace) == ["10.244.7.5:8080"], what="the tenant's own pod is called")
        # A pod that is created later counts from then on; one that is deleted counts no longer.
        await pod(client, namespace, "later", "10.244.7.6")
        await until(lambda: called(path, namespace) == ["10.244.7.5:8080", "10.244.7.6:8080"], what="both are called")
        await client.delete(PODS, "mine", namespace, grace=0)
        await until(lambda: called(path, namespace) == ["10.244.7.6:8080"], what="the other one is called alone")
    await client.delete(PODS, f"of-others-{namespace}", "default", grace=0)
