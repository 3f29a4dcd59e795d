"""Services that keep their user's selector, on real API servers with their endpoint controllers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, EVENTS, NAMESPACES, NODES, PODS, SERVICE_LINKS, SERVICES
from agent.api.names import PREFIX
from agent.drivers import handover
from agent.model.endpoints import Shelf, is_mirror, mirrors, ready
from agent.model.proxypod import proxy_pod
from agent.model.service import is_native
from agent.model.servicemarks import rerouted
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.reroute import ServiceRerouteController, controller
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected
from tests.controllers.servicepods import MINE, OURS, in_eu, runs, selects
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
CONTROLLERS = (ServiceRerouteController, GlobalServices, EndpointsController)


async def slices(pair: Pair, *, ours: bool = False) -> list[Raw]:
    """Return the EndpointSlices of `web` in the source: Kubernetes' own, or the mirrors."""
    found = await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=f"{names.LABEL_SERVICE_NAME}=web")
    return [each for each in found if is_mirror(each["metadata"]["labels"]) is ours]


async def served(pair: Pair, *, ours: bool = False) -> set[str]:
    """Return the addresses of ready endpoints in the source."""
    return {a for each in await slices(pair, ours=ours) for found in ready(each).values() for a in found}


async def serves(pair: Pair, *addresses: str) -> None:
    async def probe() -> bool:
        return await served(pair) == set(addresses)

    await until(probe, what=f"the source's own slices have {addresses}")


async def native(pair: Pair) -> Raw:
    """Return the Service, once it is marked as native."""

    async def probe() -> Raw | None:
        found = await pair.here.get(SERVICES, "web", pair.namespace)
        return found if is_native(found["metadata"].get("annotations")) else None

    return await until(probe, what="the Service is native") or {}


def delegates_slice(pair: Pair, *addresses: str) -> Raw:
    """Return the slice that a target would have for its copy."""
    assert pair.deps is not None
    labels = {names.LABEL_SERVICE_NAME: "web", names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}
    return {
        "metadata": {"name": "web-there", "labels": labels, "namespace": pair.namespace},
        "addressType": "IPv4",
        "ports": [{"port": 80}],
        "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
    }


async def test_a_service_keeps_its_selector_and_has_native_endpoints_and_a_copy(pair: Pair) -> None:
    async with in_eu(pair), pair.at_work(*CONTROLLERS):
        service = await native(pair)
        assert service["spec"]["selector"] == MINE
        annotations = service["metadata"]["annotations"]
        assert PREFIX + "original-selector" not in annotations
        assert annotations[PREFIX + "global"] == "true"
        copy = await pair.copy(SERVICES, "web", lambda copy: copy["spec"]["selector"] != MINE)
        assert PREFIX + "is-delegate" in copy["metadata"]["annotations"]
        await pair.there.create(ENDPOINT_SLICES, delegates_slice(pair, "10.2.0.1"), pair.namespace)

        await serves(pair, "10.2.0.1")
        (slice,) = await slices(pair)
        (endpoint,) = slice["endpoints"]
        assert endpoint["targetRef"]["name"] == "web"
        assert endpoint["nodeName"] == names.virtual_node(pair.namespace, "eu")
        before = await pair.here.get(SERVICES, "web", pair.namespace)
        await asyncio.sleep(1.0)
        assert await slices(pair, ours=True) == [], "no endpoint is there twice"
        assert await pair.here.get(SERVICES, "web", pair.namespace) == before

        # A plain pod that is created later gets traffic at once, and a deleted proxy pod gets none.
        plain = elected("plain", pair.namespace)
        del plain["metadata"]["annotations"]
        plain["metadata"]["labels"] = MINE
        (node,) = await pair.here.list(NODES, labels=f"!{names.PROVIDER_KEY}")
        plain["spec"]["nodeName"] = node["metadata"]["name"]
        await pair.here.create(PODS, plain)

        async def serve(count: int, *, elected: bool) -> bool:
            found = await served(pair)
            return len(found) == count and ("10.2.0.1" in found) is elected

        await until(lambda: serve(2, elected=True), what="both pods serve")
        await pair.end("web")
        await until(lambda: serve(1, elected=False), what="the plain pod serves")


async def test_another_selector_costs_no_write_and_reaches_the_copy(pair: Pair) -> None:
    async with in_eu(pair), pair.at_work(*CONTROLLERS):
        await native(pair)
        blue = elected("blue", pair.namespace)
        blue["metadata"]["labels"] = {"app": "web", "hash": "2"}
        await runs(pair, proxy_pod(blue, []), names.virtual_node(pair.namespace, "eu"), "10.2.0.2")
        await serves(pair, "10.2.0.1", "10.2.0.2")
        patched = await pair.here.patch(SERVICES, "web", {"spec": {"selector": {**MINE, "hash": "2"}}}, pair.namespace)
        await serves(pair, "10.2.0.2")
        await pair.copy(SERVICES, "web", lambda copy: len(copy["spec"]["selector"]) > 1)
        assert await pair.here.get(SERVICES, "web", pair.namespace) == patched
        await pair.end("blue")


@contextlib.asynccontextmanager
async def observed(pair: Pair) -> AsyncIterator[list[int]]:
    """Record how many addresses callers in the source have, as often as possible."""
    lows = list[int]()

    async def look() -> None:
        while True:
            own, mirrored = await served(pair), await served(pair, ours=True)
            lows.append(len(own | mirrored))

    looking = asyncio.ensure_future(look())
    try:
        yield lows
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def upgraded(pair: Pair) -> None:
    """Give the Service the state of the previous version: rerouted, with a mirror of the target's slice."""
    found = await pair.here.get(SERVICES, "web", pair.namespace)
    found = await pair.here.update(SERVICES, rerouted(found, switch=True))
    shelf = Shelf(pair.namespace, "web", found["metadata"]["uid"], ((names.LABEL_GLOBAL, "true"),))
    assert pair.deps is not None
    (mirror,) = mirrors(delegates_slice(pair, "10.2.0.1"), names.origin(pair.namespace, "eu"), shelf)
    await pair.here.create(ENDPOINT_SLICES, mirror)
    await serves(pair)


async def test_a_service_of_the_version_before_gets_its_selector_back_and_loses_no_endpoint(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "SETTLE_SECONDS", 0.5)

    async def is_over() -> bool:
        return await slices(pair, ours=True) == []

    async with in_eu(pair):
        async with pair.at_work(GlobalServices):
            await upgraded(pair)
            copy = await pair.copy(SERVICES, "web")
            await pair.there.create(ENDPOINT_SLICES, delegates_slice(pair, "10.2.0.1"), pair.namespace)
        async with observed(pair) as lows, pair.at_work(*CONTROLLERS):
            service = await native(pair)
            assert service["spec"]["selector"] == MINE
            assert PREFIX + "original-selector" not in service["metadata"]["annotations"]
            await until(is_over, what="the mirrors are gone")
            await serves(pair, "10.2.0.1")
            assert copy["spec"]["selector"] == OURS
            await pair.copy(SERVICES, "web", lambda copy: names.LABEL_SERVING in copy["spec"]["selector"])
    assert set(lows) == {1}, "there were moments without an endpoint"


async def test_what_native_endpoints_would_break_has_the_selector_rewritten(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "KEEP_SECONDS", 0.5)
    async with in_eu(pair) as links, pair.at_work(ServiceRerouteController, service_links=True):
        await native(pair)
        for spec, switched in (
            ({"to": [{"cluster": "eu"}]}, OURS),
            ({"ports": [80]}, MINE),
            ({"driver": "none"}, OURS),
        ):
            await pair.create(SERVICE_LINKS, "web", spec=spec)
            await is_rewritten(pair)
            # A link with ports alone delays the switch until endpoints are published.
            await selects(pair, switched)
            await pair.here.delete(SERVICE_LINKS, "web", pair.namespace)
            await native(pair)
            await selects(pair, MINE)
        await links.shared_by("True", "Cilium")
        await selects(pair, OURS)
        await links.shared_by("True", "EndpointSlices")
        await selects(pair, MINE)
        await native(pair)
        await links.shared_by("True", "Gateway")
        await asyncio.sleep(0.5)
        await native(pair)


async def test_mirrors_take_the_place_of_addresses_that_gateways_take_over(pair: Pair) -> None:
    """Feedback removes the addresses of proxy pods at once, and gateways need some moments."""

    async def mirrored() -> bool:
        return await served(pair, ours=True) == {"10.2.0.1"}

    async with in_eu(pair) as links, pair.at_work(*CONTROLLERS):
        await native(pair)
        await pair.copy(SERVICES, "web")
        await pair.there.create(ENDPOINT_SLICES, delegates_slice(pair, "10.2.0.1"), pair.namespace)
        await serves(pair, "10.2.0.1")
        assert await slices(pair, ours=True) == []
        await links.shared_by("True", "Gateway")
        await until(mirrored, what="the source has mirrors until gateways lead")


async def is_rewritten(pair: Pair) -> None:
    """Wait until the rewrite of the selector has at least begun."""

    async def probe() -> bool:
        found = await pair.here.get(SERVICES, "web", pair.namespace)
        return names.ANNOTATION_ORIGINAL_SELECTOR in found["metadata"]["annotations"]

    await until(probe, what="the Service is rerouted")


async def test_a_namespace_decides_for_itself(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "KEEP_SECONDS", 0.5)

    async def says(value: str | None) -> None:
        metadata = {"annotations": {"multicluster/service-reroute": value}}
        await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": metadata})

    async with in_eu(pair) as links, pair.at_work(ServiceRerouteController):
        await links.shared_by("True", "Cilium")
        await selects(pair, OURS)
        await says("never")
        await selects(pair, MINE)
        await native(pair)
        await says(None)
        await selects(pair, OURS)
        await links.shared_by("True", "EndpointSlices")
        await native(pair)
        await says("always")
        await is_rewritten(pair)


async def test_what_is_applied_again_server_side_is_unchanged(pair: Pair) -> None:
    """Flux applies the manifest every few seconds: it must find no difference."""
    async with in_eu(pair), pair.at_work(ServiceRerouteController):
        await native(pair)
        manifest = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": pair.namespace},
            "spec": {"selector": MINE, "ports": [{"port": 80, "protocol": "TCP"}]},
        }

        async def apply() -> Raw:
            manager = "kustomize-controller"
            raw = await pair.here.patch_raw(SERVICES, "web", manifest, pair.namespace, style="apply", manager=manager)
            return msgspec.json.decode(raw, type=Raw)

        first = await apply()
        await asyncio.sleep(0.5)
        assert await apply() == first
        events = await pair.here.list(EVENTS, pair.namespace, fields="involvedObject.name=web")
        assert events == []
