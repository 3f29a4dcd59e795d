"""UDP ports between two clusters with gateways, on real API servers and with the real Envoy."""

import contextlib
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CRDS, ENDPOINT_SLICES, GATEWAY_PEERS, SERVICE_LINKS, SERVICES
from agent.api.names.links import GATEWAY_SLICE_MANAGER
from agent.kube.client import Client
from agent.services.links import ServiceLinksController
from tests.controllers.pair import Pair
from tests.controllers.services.test_gateways import SHARED, ask, controllers, joined, own_address, pod_at, started
from tests.gateway import datagrams
from tests.gateway.lab import address, echo, serving
from tests.waiting import until

__all__ = ["joined"]

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

HTTP = {"name": "http", "port": 53, "targetPort": 8080}
DNS = {"name": "dns", "port": 53, "protocol": "UDP"}
UDP_FIELDS = {"udpServices", "udpOffered"}


@contextlib.asynccontextmanager
async def backend(pair: Pair) -> AsyncIterator[None]:
    """Run a ready pod of the Service `web` in the target, with TCP and UDP."""
    assert pair.deps is not None
    host = own_address()
    async with serving(echo, host) as tcp, datagrams.pod(host, b"udp ") as udp:
        ports = [
            {"name": "http", "port": int(tcp.rpartition(":")[2])},
            {"name": "dns", "protocol": "UDP", "port": int(udp.at.rpartition(":")[2])},
        ]
        labels = {names.LABEL_SERVICE_NAME: "web", names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}
        slice = {
            "metadata": {"name": "web-own", "labels": labels},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        }
        await pod_at(pair.there, pair.namespace, "web-own", host)
        await pair.there.create(ENDPOINT_SLICES, slice, pair.namespace)
        yield


async def leads(client: Client, namespace: str) -> dict[str, tuple[bool, int]]:
    """Return by protocol whether gateways route to the Service `web`, and the local port."""
    labels = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER},{names.LABEL_SERVICE_NAME}=web"
    found = await client.list(ENDPOINT_SLICES, namespace, labels=labels)
    return {
        port["protocol"]: (each["endpoints"][0]["conditions"]["ready"], port["port"])
        for each in found
        for port in each["ports"]
    }


async def led(client: Client, namespace: str, **ready: bool) -> dict[str, int]:
    """Return the local ports by protocol, once exactly these protocols have this readiness."""
    last: list[Any] = []

    async def probe() -> dict[str, int] | None:
        told = await leads(client, namespace)
        last[:] = [told, await client.list(GATEWAY_PEERS, namespace)]
        is_so = {protocol: is_ready for protocol, (is_ready, _) in told.items()} == ready
        return {protocol: port for protocol, (_, port) in told.items()} if is_so else None

    try:
        return await until(probe) or {}
    except AssertionError as error:
        raise AssertionError(f"{error}: {last[0]}, {[each.get('status') for each in last[1]]}") from None


async def answered(host: str, port: int) -> bytes:
    async with datagrams.caller(host, port) as client:
        return await client.ask(b"hello", 5)


async def link_says(pair: Pair) -> tuple[str, str]:
    """Return reason and message of the link from the target to the source."""
    link = await pair.here.get(SERVICE_LINKS, "web", pair.namespace)
    rows = [row for row in (link.get("status") or {}).get("clusters") or () if row["cluster"] == "here"]
    return (rows[0]["reason"], rows[0]["message"]) if rows else ("", "")


async def peers(pair: Pair) -> list[Raw]:
    """Return the specs of all GatewayPeers in both clusters."""
    found = [await client.list(GATEWAY_PEERS, pair.namespace) for client in (pair.here, pair.there)]
    return [each["spec"] for made in found for each in made]


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_udp_ports_are_called_as_tcp_ports_are_where_that_is_asked_for(joined: Pair) -> None:
    pair, mine, theirs = joined, address(), address()
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": [HTTP, DNS]})
    async with contextlib.AsyncExitStack() as stack:
        far = await controllers(stack, pair, mine, theirs, ServiceLinksController, service_links=True, gateway_udp=True)
        await pair.copy(SERVICES, "web")
        await stack.enter_async_context(backend(pair))
        gateways = await started(stack, pair, far, mine, theirs)
        ports = await led(pair.here, pair.namespace, TCP=True, UDP=True)
        assert await ask(mine, ports["TCP"], b"hello") == b"hello"
        assert await answered(mine, ports["UDP"]) == b"udp hello"
        await until(lambda: _says(pair, "Connected", "its gateways answer"), what="the link says so")
        status = (await pair.here.list(GATEWAY_PEERS, pair.namespace))[0]["status"]
        for protocol, field in (("TCP", "services"), ("UDP", "udpServices")):
            wanted = [{"name": "web", "ports": [{"port": 53, "locals": [ports[protocol]]}]}]
            assert status[field] == wanted

        # The peer is cut off: traffic is routed elsewhere, and back.
        await gateways[1].stop("envoy")
        await led(pair.here, pair.namespace, TCP=False, UDP=False)
        await gateways[1].start_envoy()
        assert await led(pair.here, pair.namespace, TCP=True, UDP=True) == ports
        assert await answered(mine, ports["UDP"]) == b"udp hello"

        # If UDP is no longer linked, TCP continues.
        await pair.here.patch(SERVICES, "web", {"spec": {"ports": [HTTP]}}, pair.namespace)
        assert await led(pair.here, pair.namespace, TCP=True) == {"TCP": ports["TCP"]}
        await until(lambda: _is_silent(mine, ports["UDP"]), what="the UDP port is closed")
        assert await ask(mine, ports["TCP"], b"hello") == b"hello"


async def _says(pair: Pair, reason: str, message: str) -> bool:
    return await link_says(pair) == (reason, message)


async def _is_silent(host: str, port: int) -> bool:
    async with datagrams.caller(host, port) as client:
        return await client.ask(b"hello") == b""


@pytest.mark.full("UDP left out; the first tier keeps UDP that is carried.")
async def test_without_the_flag_udp_ports_are_left_out_and_the_link_says_so(joined: Pair) -> None:
    pair, mine, theirs = joined, address(), address()
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": [HTTP, DNS]})
    async with contextlib.AsyncExitStack() as stack:
        far = await controllers(stack, pair, mine, theirs, ServiceLinksController, service_links=True)
        await pair.copy(SERVICES, "web")
        await stack.enter_async_context(backend(pair))
        await started(stack, pair, far, mine, theirs)
        await led(pair.here, pair.namespace, TCP=True)
        assert [spec for spec in await peers(pair) if UDP_FIELDS & spec.keys()] == []
        message = "its gateways answer; UDP ports are left out without --gateway-udp"
        await until(lambda: _says(pair, "Connected", message), what="the link says so")
        await pair.here.patch(SERVICES, "web", {"spec": {"ports": [DNS]}}, pair.namespace)
        message = "all its ports are UDP, which gateways leave out without --gateway-udp"
        await until(lambda: _says(pair, "NoPort", message), what="the link says why there is no way")


async def test_a_service_with_udp_alone_is_called(joined: Pair) -> None:
    pair, mine, theirs = joined, address(), address()
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": [DNS]})
    async with contextlib.AsyncExitStack() as stack:
        far = await controllers(stack, pair, mine, theirs, gateway_udp=True)
        await pair.copy(SERVICES, "web")
        await stack.enter_async_context(backend(pair))
        await started(stack, pair, far, mine, theirs)
        ports = await led(pair.here, pair.namespace, UDP=True)
        assert await answered(mine, ports["UDP"]) == b"udp hello"


@contextlib.asynccontextmanager
async def older_crd(client: Client) -> AsyncIterator[None]:
    """Install the CRD of GatewayPeers from before UDP."""
    name = f"{GATEWAY_PEERS.plural}.{GATEWAY_PEERS.group}"
    made = await client.get(CRDS, name)
    older = deepcopy(made["spec"]["versions"])
    for version in older:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        for field in UDP_FIELDS:
            del properties["spec"]["properties"][field]
        del properties["status"]["properties"]["udpServices"]
    await client.patch(CRDS, name, {"spec": {"versions": older}})
    try:
        yield
    finally:
        await client.patch(CRDS, name, {"spec": {"versions": made["spec"]["versions"]}})


async def drops_udp(client: Client, namespace: str) -> bool:
    """Return whether an API server serves the older CRD already."""
    services = [{"name": "x", "ports": [{"port": 1}]}]
    spec = {"uid": "x", "ca": "x", "udpServices": services}
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name}
    made = await client.create(GATEWAY_PEERS, {**head, "metadata": {"name": "probe"}, "spec": spec}, namespace)
    await client.delete(GATEWAY_PEERS, "probe", namespace)
    return "udpServices" not in made["spec"]


@pytest.mark.full("A definition of the version before; the first tier keeps the present one.")
async def test_a_target_whose_crd_is_older_goes_on_with_tcp_and_is_named(
    joined: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair, mine, theirs = joined, address(), address()
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": [HTTP, DNS]})
    async with older_crd(pair.there), contextlib.AsyncExitStack() as stack:
        await until(lambda: drops_udp(pair.there, pair.namespace), what="the older CRD counts")
        far = await controllers(stack, pair, mine, theirs, ServiceLinksController, service_links=True, gateway_udp=True)
        await pair.copy(SERVICES, "web")
        await stack.enter_async_context(backend(pair))
        await started(stack, pair, far, mine, theirs)
        # The source's gateway is configured for UDP in the target, where none listens.
        ports = await led(pair.here, pair.namespace, TCP=True, UDP=False)
        assert await ask(mine, ports["TCP"], b"hello") == b"hello"
        (there,) = await pair.there.list(GATEWAY_PEERS, pair.namespace)
        assert [each["name"] for each in there["spec"]["offered"]] == ["web"]
        assert not UDP_FIELDS & there["spec"].keys()
        message = "its gateways answer; they do not take its UDP ports: they may be older"
        await until(lambda: _says(pair, "Connected", message), what="the link says so")
        assert caplog.text.count("have no spec.udpOffered: apply the CRDs of this version there") == 1
