"""Owners that revert the agent's writes to their Services, on real API servers with their endpoint controllers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, PODS, SERVICES
from agent.base.reverted_writes import RevertedWrites
from agent.clusters.stores import unmarked_slices
from agent.kube.errors import Conflict
from agent.model.endpoints import is_mirror, ready
from agent.model.service import is_native
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.reroute import ServiceRerouteController
from agent.services.reroute.writer import ServiceWriter
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected
from tests.controllers.servicepods import MINE, OURS, in_eu, selects
from tests.controllers.services.test_native_services import delegates_slice, native, serves
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
CONTROLLERS = (ServiceRerouteController, GlobalServices, EndpointsController)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Versions of the written Services; the third write for one cause is blocked until the test ends."""
    found = list[str]()
    send = ServiceWriter._send

    async def counted(self: ServiceWriter, obj: Any, patch: Raw) -> None:
        await send(self, obj, patch)
        found.append(obj.version)

    monkeypatch.setattr(ServiceWriter, "_send", counted)
    monkeypatch.setattr(RevertedWrites, "_after", lambda self, known: 0.0 if known.times < 2 else 300.0)
    return found


async def rewritten(pair: Pair, turn: int, selector: Raw) -> Raw:
    """Replace the Service, without fields of other writers, as an operator does that owns it."""
    found = await pair.here.get(SERVICES, "web", pair.namespace)
    found["metadata"]["annotations"], found["metadata"]["labels"] = {"turn": str(turn)}, {}
    found["spec"]["selector"] = selector
    return await pair.here.update(SERVICES, found)


async def rewrites(pair: Pair, times: int, *selectors: Raw) -> None:
    for turn in range(times):
        selector = selectors[turn % len(selectors)]
        await until(lambda turn=turn, selector=selector: rewritten(pair, turn, selector), forgiven=Conflict)
        await asyncio.sleep(0.1)


async def plain_pod(pair: Pair) -> str:
    """Create a pod that is not elected behind the Service; return its address."""
    pod = elected("plain", pair.namespace)
    del pod["metadata"]["annotations"]
    pod["metadata"]["labels"] = MINE
    (node,) = await pair.here.list(NODES, labels=f"!{names.PROVIDER_KEY}")
    pod["spec"]["nodeName"] = node["metadata"]["name"]
    await pair.here.create(PODS, pod)

    async def address() -> str:
        found = (await pair.here.get(PODS, "plain", pair.namespace)).get("status") or {}
        return str(found.get("podIP", "")) if found.get("phase") == "Running" else ""

    return str(await until(address))


async def mirrored(pair: Pair) -> set[str]:
    """Return the addresses of ready endpoints that the target has from the source."""
    found = await pair.there.list(ENDPOINT_SLICES, pair.namespace, labels=f"{names.LABEL_SERVICE_NAME}=web")
    mirrors = [each for each in found if is_mirror(each["metadata"]["labels"])]
    return {address for each in mirrors for some in ready(each).values() for address in some}


@contextlib.asynccontextmanager
async def mirrored_all_the_time(pair: Pair, address: str) -> AsyncIterator[None]:
    """Assert that the target has an endpoint of the source throughout the context."""
    lacking = 0

    async def watch() -> None:
        nonlocal lacking
        while True:
            lacking += address not in await mirrored(pair)
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert not lacking


async def test_an_owner_that_removes_the_marks_every_moment_is_not_contradicted_for_ever(
    pair: Pair, writes: list[str]
) -> None:
    async with in_eu(pair), pair.at_work(*CONTROLLERS, share_linger=0.5):
        await native(pair)
        uid = (await pair.copy(SERVICES, "web"))["metadata"]["uid"]
        await rewrites(pair, 15, MINE)
        assert len(writes) <= 2
        assert not is_native((await pair.here.get(SERVICES, "web", pair.namespace))["metadata"]["annotations"])
        # The Service is shared nevertheless, until its last proxy pod has been deleted.
        await serves(pair, "10.2.0.1")
        copy = await pair.copy(SERVICES, "web", lambda copy: copy["metadata"]["annotations"].get("turn") == "14")
        assert copy["metadata"]["uid"] == uid
        assert copy["spec"]["selector"] != MINE
        await pair.end("web")
        await pair.gone(SERVICES, "web")


async def test_targets_keep_the_sources_plain_pods_while_marks_are_not_written(
    pair: Pair, writes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The EndpointSlice controller copies labels from a Service, and so removes the one that the agent watches."""
    monkeypatch.setattr(unmarked_slices, "LINGER_SECONDS", 1.0)
    async with in_eu(pair), pair.at_work(*CONTROLLERS):
        await native(pair)
        address = await plain_pod(pair)
        await pair.copy(SERVICES, "web")
        await until(lambda: mirrored_is(pair, address), what="the target has the plain pod")
        async with mirrored_all_the_time(pair, address):
            await rewrites(pair, 15, MINE)
            labels = f"{names.LABEL_GLOBAL}=true,{names.LABEL_SERVICE_NAME}=web"
            await until(lambda: none_labelled(pair, labels), what="slices in the source have lost the label")
        await pair.here.delete(PODS, "plain", pair.namespace, grace=0)
        await until(lambda: mirrored_is(pair), what="the target no longer has the plain pod")


async def mirrored_is(pair: Pair, *addresses: str) -> bool:
    return await mirrored(pair) == set(addresses)


async def none_labelled(pair: Pair, labels: str) -> bool:
    return not await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=labels)


@pytest.mark.parametrize("selectors", [[MINE], [MINE, {**MINE, "hash": "2"}]], ids=["one selector", "several"])
async def test_an_owner_that_rewrites_the_selector_every_moment_is_not_contradicted_for_ever(
    pair: Pair, writes: list[str], selectors: list[Raw]
) -> None:
    async with in_eu(pair), pair.at_work(*CONTROLLERS):
        metadata = {"annotations": {"multicluster/service-reroute": "always"}}
        await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": metadata})
        await pair.copy(SERVICES, "web")
        await pair.there.create(ENDPOINT_SLICES, delegates_slice(pair, "10.2.0.1"), pair.namespace)
        await selects(pair, OURS)
        before = len(writes)
        await rewrites(pair, 20, *selectors)
        # For each kind, marks and selector, the second write for a cause is the last one without a pause.
        assert len(writes) - before <= 4
