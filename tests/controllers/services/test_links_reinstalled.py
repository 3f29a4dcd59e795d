"""ServiceLinks and ServiceExports whose CRDs are deleted and created again, with all objects: their rules stay."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CRDS, SERVICE_EXPORTS, SERVICE_LINKS, SERVICES, Kind
from agent.clusters import lingering
from agent.kube.client import Client
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.links import ServiceLinksController
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import connect
from tests.controllers.installed import is_served, uninstalled
from tests.controllers.mcsapi import Exported, implemented, published, served
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, shared_with_eu
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
BOTH = ["http", "admin"]


@contextlib.asynccontextmanager
async def removed(client: Client, kind: Kind) -> AsyncIterator[None]:
    """Delete a CRD with all its objects for the duration of the block."""
    crd = await client.get(CRDS, str(kind))
    await uninstalled([client], [str(kind)])
    try:
        yield
    finally:
        kept = {key: crd["metadata"].get(key) for key in ("name", "annotations", "labels")}
        await client.create(CRDS, {**crd, "metadata": kept, "status": {}})
        await until(lambda: is_served(client, kind))


async def test_links_that_are_deleted_with_their_crd_narrow_until_a_minute_later(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = {"apiVersion": SERVICE_LINKS.api_version, "kind": SERVICE_LINKS.name}
    link = {**head, "metadata": {"name": "web"}, "spec": {"service": "web", "to": [{"cluster": "local-cluster"}]}}
    controllers = (ServiceLinksController, EndpointsController, GlobalServices)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(shared_with_eu(pair))
        await pair.here.create(SERVICE_LINKS, link, pair.namespace)
        await stack.enter_async_context(pair.at_work(*controllers, service_links=True, discovery_interval=0.5))
        assert pair.deps is not None
        links, known = Links(pair, pair.deps.cluster_uid), pair.deps.service_links
        await links.offered_by_both()
        await links.mirrored(pair.here, [("10.2.0.1", True, BOTH)])
        async with removed(pair.here, SERVICE_LINKS):
            await until(lambda: not known.served)
        await until(lambda: known.served)
        # A link that restricts nothing, and that the agent creates, would take the name.
        await asyncio.sleep(2 * lingering.LOOK_SECONDS)
        assert not await pair.here.list(SERVICE_LINKS, pair.namespace)
        await pair.here.patch(SERVICES, "web", {"metadata": {"annotations": {"turn": "1"}}}, pair.namespace)
        await links.mirrored(pair.there, [])
        await pair.here.create(SERVICE_LINKS, link, pair.namespace)
        await asyncio.sleep(2 * lingering.LOOK_SECONDS)
        await links.mirrored(pair.there, [])

        # Without a restore the rule ends.
        monkeypatch.setattr(lingering, "ABSENT_SECONDS", 3.0)
        async with removed(pair.here, SERVICE_LINKS):
            await until(lambda: not known.served)
        await links.mirrored(pair.there, [("10.1.0.1", True, BOTH)])


async def test_a_link_that_a_user_deletes_ends_soon(pair: Pair) -> None:
    head = {"apiVersion": SERVICE_LINKS.api_version, "kind": SERVICE_LINKS.name}
    spec = {"service": "web", "to": [{"cluster": "local-cluster"}]}
    async with shared_with_eu(pair), pair.at_work(EndpointsController, GlobalServices, service_links=True):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await pair.here.create(SERVICE_LINKS, {**head, "metadata": {"name": "web"}, "spec": spec}, pair.namespace)
        await links.offered_by_both()
        await links.mirrored(pair.here, [("10.2.0.1", True, BOTH)])
        await links.mirrored(pair.there, [])
        await pair.here.delete(SERVICE_LINKS, "web", pair.namespace)
        await links.mirrored(pair.there, [("10.1.0.1", True, BOTH)])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kinds(two_clusters: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """Serve the kinds of the Multi-Cluster Services API in both clusters."""
    here, there = (connect(two_clusters[name].kubeconfig, name=name) for name in ("here", "there"))
    async with here.session, there.session, served((here, there), await published(tmp_path_factory.mktemp("mcs"))):
        yield


async def test_exports_that_are_deleted_with_their_crd_stay_imported_until_a_minute_later(
    kinds: None, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with implemented(pair) as hello:
        uid = await exported(hello, pair)
        async with removed(pair.there, SERVICE_EXPORTS):
            await asyncio.sleep(3 * lingering.LOOK_SECONDS)
            assert (await hello.derived(pair.here))["metadata"]["uid"] == uid
        await hello.export(pair.there)
        await asyncio.sleep(2 * lingering.LOOK_SECONDS)
        assert (await hello.derived(pair.here))["metadata"]["uid"] == uid
        await hello.told(pair.there, "Ready", "True", "Exported")

        monkeypatch.setattr(lingering, "ABSENT_SECONDS", 3.0)
        async with removed(pair.there, SERVICE_EXPORTS):
            await hello.gone(pair.here)


async def exported(hello: Exported, pair: Pair) -> str:
    """Export the Service from the target; return the UID of the source's derived Service."""
    await hello.deploy(pair.there)
    await hello.export(pair.there)
    await hello.imported(pair.here)
    return str((await hello.derived(pair.here))["metadata"]["uid"])
