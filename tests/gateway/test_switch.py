"""Two clusters on real nodes with connected pod networks: from pod addresses to gateways and back, under load."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, SERVICES, TARGETS
from agent.api.names import LABEL_SERVICE_NAME, LABEL_SLICE_MANAGED_BY, NETWORK_DRIVER, SHORT_PREFIX
from agent.api.names.links import BY_GATEWAY, GATEWAY_SLICE_MANAGER
from agent.drivers.driver import BY_ADDRESSES
from tests.e2e import shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.gateway import realnodes
from tests.gateway.kubeproxy import settled
from tests.gateway.realnodes import CLUSTERS, asking, led
from tests.sandbox.realnode.conftest import why_not

pytestmark = realnodes.MARKS

ENDED_SECONDS = 12.0
"""Seconds within which connections through a removed port have ended."""
HANGS_SECONDS = 20.0
"""Upper bound in seconds for every answer; otherwise a packet retransmitted to another pod would not count as
lost."""
SERVICES_OF = {"cd": "web", "us": "home"}
"""Service that the frontend of each cluster asks; its pods are all in the other cluster."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    if reason := why_not():
        pytest.skip(reason)
    async with realnodes.fleet_of_two(tmp_path_factory.mktemp("switch"), "own") as fleet:
        yield fleet


async def choose(fleet: Fleet, namespace: str, driver: str | None) -> None:
    annotations = {SHORT_PREFIX + NETWORK_DRIVER: driver}
    await fleet.source.patch(TARGETS, "us", {"metadata": {"annotations": annotations}}, namespace)


async def by_addresses(fleet: Fleet, namespace: str, *, yes: bool) -> None:
    """Wait until both clusters have endpoints with the other cluster's pod addresses, or none."""

    async def probe() -> bool:
        found = []
        for cluster, service in SERVICES_OF.items():
            labels = f"{LABEL_SERVICE_NAME}={service},{LABEL_SLICE_MANAGED_BY}!={GATEWAY_SLICE_MANAGER}"
            slices = await fleet.clients[cluster].list(ENDPOINT_SLICES, namespace, labels=labels)
            found.append(any(each.get("endpoints") for each in slices))
        return found == [yes, yes]

    what = f"addresses of pods are {'' if yes else 'not '}told"
    await fleet.until(what, probe, about=namespace, seconds=realnodes.PATIENCE_SECONDS)


async def no_peers(fleet: Fleet, namespace: str) -> bool:
    return not any([await fleet.clients[cluster].list(GATEWAY_PEERS, namespace) for cluster in CLUSTERS])


async def test_another_driver_under_load_loses_no_request(fleet: Fleet) -> None:
    async with realnodes.allowed(fleet) as namespace, contextlib.AsyncExitStack() as stack:
        await fleet.source.create(SERVICES, shared.service("web"), namespace)
        await fleet.source.create(DEPLOYMENTS, realnodes.serving("web", 2, elect=True), namespace)
        marked = shared.service("home", {SHORT_PREFIX + "global": "true"})
        await fleet.source.create(SERVICES, marked, namespace)
        await fleet.source.create(DEPLOYMENTS, realnodes.serving("home", 1), namespace)
        await realnodes.by_driver(fleet, namespace, BY_ADDRESSES)
        await shared.marked(fleet, namespace, "web")
        await shared.known_everywhere(fleet, namespace, "web", 2, CLUSTERS)
        tcp = await stack.enter_async_context(realnodes.keeper_and_streamer(fleet, namespace))
        await shared.known_everywhere(fleet, namespace, tcp, 1, CLUSTERS, app=tcp)
        await by_addresses(fleet, namespace, yes=True)
        began = time.monotonic()
        asked = [
            await stack.enter_async_context(asking(fleet, namespace, service, cluster))
            for cluster, service in SERVICES_OF.items()
        ]
        kept = await stack.enter_async_context(realnodes.keeping(fleet, namespace, tcp))
        for _ in range(2):
            await choose(fleet, namespace, "gateway")
            await realnodes.by_driver(fleet, namespace, BY_GATEWAY)
            await by_addresses(fleet, namespace, yes=False)
            for cluster, service in (*SERVICES_OF.items(), ("cd", tcp)):
                await led(fleet, cluster, namespace, service, 2)
                await settled(fleet, cluster, namespace, service)
            async with realnodes.keeping(fleet, namespace, tcp) as through:
                await choose(fleet, namespace, "endpointslices")
                await realnodes.by_driver(fleet, namespace, BY_ADDRESSES)
                await by_addresses(fleet, namespace, yes=True)
                gone = fleet.until("gateways are told of nothing", lambda: no_peers(fleet, namespace), seconds=120)
                await gone
                await asyncio.sleep(ENDED_SECONDS)
            print(f"over connections through gateways that are kept: {through}")
            realnodes.went_on(through)
        await stack.aclose()
        backends = {pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web")}
        for each in asked:
            each.none_failed(time.monotonic() - began)
            print({name: found["asked"] for name, found in each.results.items()}, realnodes.longest(each))
            assert each.results[realnodes.FRONTEND]["longest"] < HANGS_SECONDS
        print(f"over connections to addresses that are kept: {kept}")
        assert (kept["ended"], kept["not connected"]) == (0, 0)
        assert realnodes.answers(asked[0]) == backends
        assert len(realnodes.answers(asked[1])) == 1
