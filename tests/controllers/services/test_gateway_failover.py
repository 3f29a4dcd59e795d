"""Failover of all Services of a peer, with 4,000 slices and API requests of 5 ms; limits that gateways have met."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, SERVICES
from agent.model.gatewaylink import Shared, manifest
from agent.model.gatewaytold import Told
from agent.services.gateways import GatewaySlicesController
from tests.controllers.offline import Offline, offline, quiet
from tests.waiting import until

Raw = dict[str, Any]

NAMESPACES, SHARED = 100, 40
WRITE_SECONDS = 0.005
GATEWAY = "gw"


class Api:
    """Stand-in for an API server: applies merge patches, each after the time of a write."""

    def __init__(self) -> None:
        self.objects: dict[str, Raw] = {}
        self.closed = 0
        """Number of slices that have lost their ready endpoint."""
        self.inflight = self.most = 0
        self.versions = itertools.count(1_000_000)

    async def answer(self, request: web.Request) -> web.Response:
        """Create or patch an object."""
        body = msgspec.json.decode(await request.read())
        self.inflight += 1
        self.most = max(self.most, self.inflight)
        await asyncio.sleep(WRITE_SECONDS)
        self.inflight -= 1
        path = request.path.removesuffix("/status")
        if request.method == "POST":
            path += "/" + body["metadata"]["name"]
        obj = self.objects.setdefault(path, {})
        _merge(obj, body)
        obj["metadata"] = {"uid": path, **obj.get("metadata", {}), "resourceVersion": f"{next(self.versions)}"}
        if request.method == "PATCH" and "endpoints" in body and not body["endpoints"][0]["conditions"]["ready"]:
            self.closed += 1
        return web.Response(body=msgspec.json.encode(obj), content_type="application/json")

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Yield the URL while it is served."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def _merge(old: Raw, new: Raw) -> None:
    for key, value in new.items():
        if value is None:
            old.pop(key, None)
        elif isinstance(value, dict) and isinstance(old.get(key), dict):
            _merge(old[key], value)
        else:
            old[key] = value


def path_of(namespace: str) -> str:
    return f"/apis/{GATEWAY_PEERS.api_version}/namespaces/{namespace}/gatewaypeers/eu"


def put_peers(cluster: Offline, controller: GatewaySlicesController, api: Api, healthy: int) -> None:
    """Let the gateway report each GatewayPeer, as its status writes do."""
    for number in range(NAMESPACES):
        put_peer(cluster, controller, api, f"team-{number:03}", {"healthy": healthy})


def put_peer(cluster: Offline, controller: GatewaySlicesController, api: Api, namespace: str, said: Raw) -> None:
    """Let the gateway report the GatewayPeer of one namespace."""
    path = path_of(namespace)
    obj = api.objects.setdefault(path, _peer(cluster, namespace))
    services = (obj.get("status") or {}).get("services") or ()
    listens = [local for each in services for port in each["ports"] for local in port["locals"]]
    said = {"reason": "Connected", "total": 1, "listens": listens, **said}
    _merge(obj, {"status": {"gateways": {GATEWAY: said}}})
    fields = msgspec.json.decode(msgspec.json.encode(obj))
    fields = {field: fields[field] for field in ("metadata", "spec", "status")}
    cluster._version = next(api.versions)
    fields["metadata"] |= {"resourceVersion": str(cluster._version), "uid": path}
    cluster.put(controller._peers, GATEWAY_PEERS, "eu", namespace, **fields)


def put_gateway(cluster: Offline, controller: GatewaySlicesController) -> None:
    """Create the slice of the gateways' Service with one pod."""
    endpoint = {"addresses": ["192.0.2.10"], "targetRef": {"kind": "Pod", "name": GATEWAY}}
    cluster.put(controller._own, ENDPOINT_SLICES, "gw", cluster.deps.home, addressType="IPv4", endpoints=[endpoint])


def _peer(cluster: Offline, namespace: str) -> Raw:
    shared = [Shared(f"web-{number}", (("http", 80),), 1) for number in range(SHARED)]
    return manifest("eu", namespace, cluster.deps.cluster_uid, "uid-eu", Told("CA"), shared, [])


@pytest.mark.full("Takes 20 s of CPU: 4,000 slices are created and changed.")
@pytest.mark.timeout(300)
async def test_callers_of_four_thousand_slices_leave_a_silent_peer_by_writes_side_by_side() -> None:
    api = Api()
    async with api.served() as server, offline(GatewaySlicesController, server, gateway=True) as (cluster, controller):
        for space, number in itertools.product(range(NAMESPACES), range(SHARED)):
            cluster.put(
                controller._services,
                SERVICES,
                f"web-{number}",
                f"team-{space:03}",
                metadata={"labels": {names.LABEL_GLOBAL: "true"}},
                spec={"ports": [{"name": "http", "port": 80}]},
            )
        put_gateway(cluster, controller)

        def ready() -> int:
            made = (obj.decode() for obj in controller._made.store)
            return sum(each["endpoints"][0]["conditions"]["ready"] for each in made)

        put_peers(cluster, controller, api, 1)
        await until(lambda: len(controller._made.store) == NAMESPACES * SHARED, seconds=120, what="slices are made")
        put_peers(cluster, controller, api, 1)
        await until(lambda: ready() == NAMESPACES * SHARED, seconds=120, what="callers are sent to the peer")
        api.most = 0
        put_peers(cluster, controller, api, 0)
        await until(lambda: api.closed == NAMESPACES * SHARED, seconds=120, what="callers are sent there no more")
    assert api.most >= 16, "writes are side by side"


async def test_an_event_and_a_condition_report_what_gateways_leave_out() -> None:
    api, message = Api(), "gateways leave out 3 of its Services: share fewer"
    async with api.served() as server, offline(GatewaySlicesController, server, gateway=True) as (cluster, controller):
        put_gateway(cluster, controller)
        put_peer(cluster, controller, api, "shop", {"healthy": 1, "message": message})
        events = cluster.deps.recorder._queue
        _, kind, reason, text = await until(lambda: None if events.empty() else events.get_nowait())
        assert (kind, reason, text) == ("Warning", "LeftOut", f"{GATEWAY}: {message}")
        conditions = api.objects[path_of("shop")]["status"]["conditions"]
        (said,) = [each for each in conditions if each["type"] == "Connected"]
        assert (said["status"], said["message"]) == ("True", text)
        put_peer(cluster, controller, api, "shop", {"healthy": 1, "message": message})
        await quiet(controller)
        assert events.empty()
