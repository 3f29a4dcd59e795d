"""Slices that point to gateways: the order of writes, and the time that many of them take."""

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, SERVICES
from agent.api.names.links import GATEWAY_SERVICE, GATEWAY_SLICE_MANAGER
from agent.kube.client import encode
from agent.kube.config import load
from agent.kube.store import Object, Store
from agent.model import peerports
from agent.model.gatewaylink import Shared, manifest
from agent.model.gatewaytold import Told
from agent.services.gateways import GatewaySlicesController
from agent.services.gateways.localports import LocalPorts
from agent.services.gateways.slicewriter import writes
from tests.controllers.pair import Pair
from tests.controllers.services.test_gateway_ports import peer, put
from tests.controllers.services.test_gateways import HOME, gateway_pod
from tests.controllers.starting import running
from tests.controllers.target_links import kubeconfig
from tests.kube.relay import Relay
from tests.waiting import until

if TYPE_CHECKING:
    from hack.lab.sandbox import Cluster

Raw = dict[str, Any]

SERVICES_SHARED = 60
LATENCY_SECONDS = 0.2
GATEWAY = "gw"


def slice_of(name: str, *ready: bool, port: int = 20000) -> Raw:
    endpoints = [
        {"addresses": [f"10.0.0.{number}"], "conditions": {"ready": each}} for number, each in enumerate(ready)
    ]
    return {"metadata": {"name": name}, "ports": [{"name": "http", "port": port}], "endpoints": endpoints}


def test_slices_that_lose_a_ready_endpoint_are_written_first() -> None:
    existing = [slice_of(name, True, True) for name in ("lost", "gone", "same", "moved")] + [slice_of("back", False)]
    wanted = [
        slice_of("lost", True, False),
        slice_of("same", True, True),
        slice_of("back", True),
        slice_of("new", True),
    ]
    wanted.append(slice_of("moved", True, True, port=20001))
    found = writes(
        [Object(ENDPOINT_SLICES, encode(each)) for each in existing],
        {each["metadata"]["name"]: each for each in wanted},
    )

    def written(some: list[tuple[Object | None, Raw | None]]) -> list[str]:
        return [obj.name if obj is not None else (new or {})["metadata"]["name"] for obj, new in some]

    assert written(found.closing) == ["lost", "gone", "moved"]
    assert written(found.others) == ["same", "back", "new"]


def test_ports_that_are_being_written_are_allotted_to_no_other_peer() -> None:
    store = Store()
    found = LocalPorts(store)
    new = [peer(f"peer-{number}", {"a": (1, [])}) for number in range(3)]
    for each in new:
        put(found, store, each)

    def allotted(raw: Raw) -> int:
        status, _ = found.allot(raw, peerports.named(raw), (), 1)
        return int(status["services"][0]["ports"][0]["locals"][0])

    first = [allotted(each) for each in new]
    assert len(set(first)) == len(new)
    found.settle(("shop", "peer-0"))
    assert allotted(new[0]) == first[0]


@pytest.mark.cluster
async def test_callers_leave_a_peer_that_is_gone_in_time_however_many_services_it_has(
    pair: Pair, tmp_path: Path
) -> None:
    client, namespace = pair.here, pair.namespace
    services = [f"web-{number}" for number in range(SERVICES_SHARED)]
    path = tmp_path / "kubeconfig"

    async def ready() -> list[bool]:
        labels = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
        found = await client.list(ENDPOINT_SLICES, namespace, labels=labels)
        return [each["endpoints"][0]["conditions"]["ready"] for each in found]

    async def says(healthy: int) -> None:
        found = await client.get(GATEWAY_PEERS, "eu", namespace)
        told = (found.get("status") or {}).get("services") or ()
        listens = [local for each in told for port in each["ports"] for local in port["locals"]]
        said = {"reason": "Connected", "healthy": healthy, "total": 1, "listens": listens}
        await client.patch(GATEWAY_PEERS, "eu", {"status": {"gateways": {GATEWAY: said}}}, namespace, sub="status")

    async def are(state: bool) -> bool:
        return await ready() == [state] * SERVICES_SHARED

    await gateway_pod(client, GATEWAY)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(client.delete, ENDPOINT_SLICES, GATEWAY_SERVICE, HOME)
        relay = await stack.enter_async_context(Relay.started(load(str(pair.clusters[0].kubeconfig))))
        path.write_text(kubeconfig(pair.clusters[0], server=relay.connection.server, user={}))
        source = cast("Cluster", SimpleNamespace(kubeconfig=path))
        deps = await stack.enter_async_context(running(source, GatewaySlicesController, gateway=True))
        spec = {"ports": [{"name": "http", "port": 80}]}
        labels = {names.LABEL_GLOBAL: "true"}
        for name in services:
            await client.create(SERVICES, {"metadata": {"name": name, "labels": labels}, "spec": spec}, namespace)
        shared = [Shared(name, (("http", 80),), 1) for name in services]
        await client.create(
            GATEWAY_PEERS, manifest("eu", namespace, deps.cluster_uid, "uid-eu", Told("CA"), shared, []), namespace
        )
        await until(lambda: are(False), what="slices are made")
        await says(1)
        await until(lambda: are(True), what="callers are sent to the peer")
        relay.delay(LATENCY_SECONDS)
        began = asyncio.get_running_loop().time()
        await says(0)
        await until(lambda: are(False), what="callers are sent there no more")
        # Sequential writes would take 12 s.
        assert asyncio.get_running_loop().time() - began < SERVICES_SHARED * LATENCY_SECONDS / 2
