"""Callers in another namespace who reach a Service through gateways, with the real Envoy."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, NAMESPACES, SERVICE_LINKS, SERVICES
from agent.services.links import ServiceLinksController
from tests.controllers.pair import Pair
from tests.controllers.proxies import enable
from tests.controllers.services.test_gateways import controllers, joined, offer, own_address, shared, started
from tests.gateway.lab import address, ask, echo, serving
from tests.waiting import until

__all__ = ["joined", "shared"]
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]


@pytest_asyncio.fixture
async def other(pair: Pair) -> AsyncIterator[str]:
    """Another enabled namespace of the source."""
    name = f"{pair.namespace}-b"
    await pair.here.create(NAMESPACES, {"metadata": {"name": name}})
    await enable(pair.here, name)
    try:
        yield name
    finally:
        await pair.here.delete(NAMESPACES, name)


async def test_callers_in_another_namespace_are_led_through_gateways(shared: Pair, other: str) -> None:
    pair, mine, theirs = shared, address(), address()
    async with contextlib.AsyncExitStack() as stack:
        settings = {"service_links": True, "link_namespaces": True}
        far = await controllers(stack, pair, mine, theirs, ServiceLinksController, **settings)
        assert pair.deps is not None
        await pair.copy(SERVICES, "web")
        backend = await stack.enter_async_context(serving(echo, own_address()))
        await offer(pair.there, pair.namespace, {names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}, backend)
        spec = {"service": "web", "to": [{"cluster": "local-cluster", "namespace": other}]}
        await pair.create(SERVICE_LINKS, "web-for-b", spec=spec)
        gateways = await started(stack, pair, far, mine, theirs)

        port = await mirrored(pair, other, ready=True)
        assert await ask(mine, port, b"hello") == b"hello"
        await says(pair, other, "Connected")

        await gateways[1].stop("envoy")
        await mirrored(pair, other, ready=False)
        await says(pair, other, "PeerUnreachable")
        await gateways[1].start_envoy()
        assert await mirrored(pair, other, ready=True) == port

        await pair.here.delete(SERVICE_LINKS, "web-for-b", pair.namespace)

        async def gone() -> bool:
            return not await pair.here.list(ENDPOINT_SLICES, other)

        await until(gone, what="nothing leads there any more")


async def mirrored(pair: Pair, namespace: str, *, ready: bool) -> int:
    """Return the local port of the gateway for callers in a namespace, once its readiness is as wanted."""

    async def probe() -> int | None:
        labels = f"{names.LABEL_SERVICE_NAME}=web,{names.LABEL_SLICE_MANAGED_BY}={names.SLICE_MANAGER}"
        found = await pair.here.list(ENDPOINT_SLICES, namespace, labels=labels)
        told = [(each["endpoints"][0]["conditions"]["ready"], each["ports"][0]["port"]) for each in found]
        return told[0][1] if [at for at, _ in told] == [ready] else None

    return await until(probe) or 0


async def says(pair: Pair, namespace: str, reason: str) -> None:
    async def probe() -> bool:
        link = await pair.here.get(SERVICE_LINKS, "web-for-b", pair.namespace)
        rows = (link.get("status") or {}).get("clusters") or ()
        last[:] = [(row["cluster"], row["namespace"], row["from"], row["driver"], row["reason"]) for row in rows]
        return ("here", namespace, ["eu"], "gateway", reason) in last

    last: list[Any] = []
    try:
        await until(probe, what=f"the link says {reason}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None
