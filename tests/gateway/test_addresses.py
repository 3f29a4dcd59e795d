"""A gateway process on a real API server offers only the source's own pods from the EndpointSlices of a source."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, NAMESPACES, PODS
from agent.gateway.admin import Admin
from agent.gateway.cluster import FromCluster
from agent.gateway.loop import Loop
from agent.gateway.pods import PodAddresses
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.errors import Forbidden
from agent.kube.informer import Informer
from agent.kube.session import Session
from agent.kube.store import Object
from agent.model import gatewaypeer
from agent.model.envoycounters import PeerHealth
from agent.model.envoyparts import Place
from agent.model.gatewaysize import CLUSTER, PEER, Limits
from tests.namespaces import end
from tests.stalls import StallWatch
from tests.waiting import until

Raw = dict[str, Any]

TENANT = "uid-of-tenant-a"
FOREIGN = ("10.96.0.1", "168.63.129.16", "192.168.0.10")


@contextlib.asynccontextmanager
async def gateway(
    client: Client, directory: Path, answers: Iterable[str] = (), limit: Limits | None = None
) -> AsyncIterator[Path]:
    """Create the process next to Envoy, limited to reading its cluster. Return its input file.

    :param answers: namespaces whose peers Envoy considers healthy
    """
    path = directory / "gateway.json"
    loop = Loop(Place(str(directory), 15443), path, directory, Admin(str(directory / "admin")))
    loop.health = {f"{namespace}/mine": PeerHealth(1, 1, "Connected") for namespace in answers}
    # No Envoy runs, so every configuration counts as accepted.
    loop.trouble = lambda peer: ""  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(task()) for _, task in FromCluster(client, "gw-1", path, loop, limit).tasks()]
        yield path
        for task in tasks:
            task.cancel()


async def pod(client: Client, namespace: str, name: str, address: str, phase: str = "Running") -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "of-no-kubelet"}
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace)
    status = {"phase": phase, "podIP": address, "podIPs": [{"ip": address}]}
    await client.patch(PODS, name, {"status": status}, namespace, sub="status")


async def offered_by(
    client: Client, namespace: str, *addresses: str, services: Iterable[str] = ("door",), ports: int = 1
) -> None:
    """Let a tenant offer Services to a cluster of its own, with claimed addresses of its pods."""
    told = [{"name": "http", "port": 80}, *({"name": f"p{number}", "port": number} for number in range(1, ports))]
    spec = {"uid": "uid-of-its-own", "ca": "CA", "offered": [{"name": name, "ports": told} for name in services]}
    labels = {names.LABEL_PARENT_CLUSTER_UID: TENANT}
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name}
    await client.create(
        GATEWAY_PEERS, {**head, "metadata": {"name": "mine", "labels": labels}, "spec": spec}, namespace
    )
    for name in services:
        slice = {
            "metadata": {"name": name, "labels": {names.LABEL_SERVICE_NAME: name, **labels}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": [each]} for each in addresses],
        }
        await client.create(ENDPOINT_SLICES, slice, namespace)


async def says(client: Client, namespace: str, part: str) -> bool:
    """Return whether the GatewayPeer has this text in the message of the gateway pod."""
    status = (await client.get(GATEWAY_PEERS, "mine", namespace)).get("status") or {}
    return part in ((status.get("gateways") or {}).get("gw-1") or {}).get("message", "")


def called(path: Path, namespace: str) -> list[str] | None:
    """Return the endpoints of the tenant's Service in Envoy's input; None if it is absent."""
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


def see(informer: Informer, name: str, version: int = 1, **fields: Any) -> None:
    """Put an object into an informer, as a watch does."""
    metadata = {"name": name, "namespace": "shop", "resourceVersion": str(version), **fields.pop("metadata", {})}
    informer._contents.put(Object(informer.kind, msgspec.json.encode({**fields, "metadata": metadata})), version)


def see_offered(found: FromCluster, *services: str, addresses: Iterable[str] = ("10.1.0.5",)) -> None:
    """Put a GatewayPeer that offers Services into the informers, with a pod at 10.1.0.5."""
    source = {names.LABEL_PARENT_CLUSTER_UID: TENANT}
    offered = [{"name": name, "ports": [{"name": "http", "port": 80}]} for name in services]
    spec = {"uid": "uid", "ca": "CA", "offered": offered}
    see(found._peers, "eu", metadata={"labels": source, "creationTimestamp": "2026-01-01T00:00:00Z"}, spec=spec)
    see(found._pods.informer, "old", spec={"nodeName": "n"}, status={"podIPs": [{"ip": "10.1.0.5"}]})
    for name in services:
        see(
            found._slices[1],
            name,
            metadata={"labels": {names.LABEL_SERVICE_NAME: name, **source}},
            addressType="IPv4",
            ports=[{"name": "http", "port": 8080}],
            endpoints=[{"addresses": [each]} for each in addresses],
        )


@contextlib.asynccontextmanager
async def unconnected(directory: Path, limit: Limits | None = None) -> AsyncIterator[FromCluster]:
    """View of a gateway pod without an API server."""
    async with Session(Connection("http://127.0.0.1:1"), name="local") as session:
        path = directory / "gateway.json"
        loop = Loop(Place(str(directory), 15443), path, directory, Admin(str(directory / "admin")))
        yield FromCluster(Client(session), "gw-1", path, loop, limit)


async def told(found: FromCluster, directory: Path) -> gatewaypeer.Gateway:
    """Write the input file and return its content."""
    await found.refresh("own")
    return msgspec.json.decode((directory / "gateway.json").read_bytes(), type=gatewaypeer.Gateway)


async def test_a_gateway_that_cannot_watch_pods_keeps_calling_those_it_has_seen_and_names_the_error(
    tmp_path: Path,
) -> None:
    async with unconnected(tmp_path) as found:

        async def endpoints() -> tuple[str, ...]:
            (service,) = (await told(found, tmp_path)).services
            return service.endpoints

        see_offered(found, "web", addresses=("10.1.0.5", "10.1.0.6"))
        assert await endpoints() == ("10.1.0.5:8080",)
        assert "have the Service select pods" in found.inputs.warning("shop/eu")
        found._pods.informer.error = Forbidden(403, "Forbidden", "pods is forbidden")
        assert await endpoints() == ("10.1.0.5:8080",)
        assert "gateways cannot watch pods (pods is forbidden)" in found.inputs.warning("shop/eu")


async def test_a_gateway_without_peers_has_an_input_file_as_well(tmp_path: Path) -> None:
    async with unconnected(tmp_path) as found:
        assert await told(found, tmp_path) == gatewaypeer.Gateway("own")


async def test_a_gateway_that_restarts_goes_on_serving_what_its_input_file_has(tmp_path: Path) -> None:
    async def serving(found: FromCluster) -> list[str]:
        (peer,) = (await told(found, tmp_path)).peers
        return [each.name for each in peer.offered]

    room_for_one = Limits(PEER.memory + CLUSTER.memory + 10_000)
    async with unconnected(tmp_path, room_for_one) as first:
        see_offered(first, "web")
        assert await serving(first) == ["web"]
    async with unconnected(tmp_path, room_for_one) as restarted:
        see_offered(restarted, "another", "web")
        assert await serving(restarted) == ["web"]
    (tmp_path / "gateway.json").write_bytes(b"{")
    async with unconnected(tmp_path, room_for_one) as anew:
        see_offered(anew, "another", "web")
        assert await serving(anew) == ["another"]


@pytest.mark.cluster
async def test_a_tenant_leads_its_gateway_to_its_own_running_pods_only(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    await pod(client, "default", f"of-others-{namespace}", "10.244.7.7")
    await pod(client, namespace, "done", "10.244.7.8", "Succeeded")
    await pod(client, namespace, "mine", "10.244.7.5")
    await offered_by(client, namespace, "10.244.7.5", "10.244.7.6", "10.244.7.7", "10.244.7.8", *FOREIGN)
    async with gateway(client, tmp_path, [namespace]) as path:
        await until(lambda: called(path, namespace) == ["10.244.7.5:8080"], what="the tenant's own pod is called")
        # A pod counts from its creation until its deletion.
        await pod(client, namespace, "later", "10.244.7.6")
        await until(lambda: called(path, namespace) == ["10.244.7.5:8080", "10.244.7.6:8080"], what="both are called")
        await client.delete(PODS, "mine", namespace, grace=0)
        await until(lambda: called(path, namespace) == ["10.244.7.6:8080"], what="the other one is called alone")
        await until(lambda: says(client, namespace, "belong to no running pod of namespace"), what="the peer says so")
    await client.delete(PODS, f"of-others-{namespace}", "default", grace=0)


@pytest.mark.cluster
async def test_a_tenant_that_asks_for_all_of_the_memory_leaves_others_theirs(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    other, hog = f"{namespace}-b", [f"s{number}" for number in range(10)]
    await client.create(NAMESPACES, {"metadata": {"name": other}})
    await offered_by(client, namespace, services=hog, ports=25)
    async with gateway(client, tmp_path, [namespace, other], Limits(8 * 2**20)) as path:
        await until(lambda: says(client, namespace, "leave out 1 of its Services"), what="the tenant is told")
        served = offered(path, namespace)
        assert 1 < len(served) < len(hog)

        # Another, small one is created later.
        await offered_by(client, other)
        await until(lambda: offered(path, other) == {"door"}, what="the other one is served")
        assert not await says(client, other, "leave out")
        assert len(offered(path, namespace)) in (len(served), len(served) - 1)
        await client.delete(GATEWAY_PEERS, "mine", other)
    await end(client, other)


@pytest.mark.cluster
@pytest.mark.full("Needs a core to itself: a busy API server takes more than 10 s for an object of this size.")
async def test_a_large_gateway_peer_neither_holds_up_a_gateway_nor_fills_its_memory(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    hosts, ports = [{"name": f"h{number}"} for number in range(100)], [{"port": 1 + number} for number in range(100)]
    headless = [{"name": f"s{number}", "hosts": hosts, "ports": ports} for number in range(200)]
    many = [{"name": f"g{number}", "ports": ports[:10]} for number in range(2_000)]
    spec = {"uid": "uid-of-its-own", "ca": "CA", "offered": many, "offeredHeadless": headless}
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name}
    labels = {names.LABEL_PARENT_CLUSTER_UID: TENANT}
    async with gateway(client, tmp_path, [namespace]) as path, StallWatch() as watch:
        await until(path.exists, what="the input file is there")
        await client.create(
            GATEWAY_PEERS, {**head, "metadata": {"name": "mine", "labels": labels}, "spec": spec}, namespace
        )
        await until(lambda: namespace.encode() in path.read_bytes(), what="the GatewayPeer is in the file")
    assert watch.flaw() == ""
    assert offered(path, namespace) == set()


def offered(path: Path, namespace: str) -> set[str]:
    """Return the Services of a namespace in Envoy's input."""
    found = msgspec.json.decode(path.read_bytes(), type=gatewaypeer.Gateway).services
    return {each.name for each in found if each.namespace == namespace}
