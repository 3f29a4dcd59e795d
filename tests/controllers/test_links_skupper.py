"""The driver `skupper` on real API servers, with something that stands for Skupper's controllers."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    CONNECTORS,
    ENDPOINT_SLICES,
    LISTENERS,
    NAMESPACES,
    SERVICES,
    SITES,
    SKUPPER_TOKENS,
    Kind,
)
from agent.controllers.endpoints import EndpointsRoom
from agent.controllers.globalsvc import GlobalServices
from agent.controllers.links import ServiceLinksRoom, controller
from agent.drivers import handover
from agent.drivers import skupper as driver
from agent.kube.client import Client
from agent.model.skupper import MANAGER, host
from tests.controllers.installed import installed
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, condition, rows, shared_with_eu
from tests.controllers.skupper import KINDS, Skupper
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


async def listed(pair: Pair, client: Client, kind: Kind, want: int) -> list[Raw]:
    async def probe() -> list[Raw] | None:
        found = await client.list(kind, pair.namespace)
        return [*found, {}] if len(found) == want else None

    return (await until(probe) or [])[:-1]


async def routed(pair: Pair, client: Client, want: list[tuple[str, list[str]]]) -> None:
    """Wait for slices of ours with these addresses of routers and names of ports."""

    async def probe() -> bool:
        labels = f"{names.LABEL_SERVICE_NAME}=web,{names.LABEL_SLICE_MANAGED_BY}={MANAGER}"
        found = await client.list(ENDPOINT_SLICES, pair.namespace, labels=labels)
        return want == [
            (each["endpoints"][0]["addresses"][0], [port["name"] for port in each["ports"]]) for each in found
        ]

    await until(probe)


async def led_by_addresses(pair: Pair) -> bool:
    """Whether routers are called no more; until then, and then, there is always a way."""
    by_routers = await pair.here.list(LISTENERS, pair.namespace)
    labels = f"{names.LABEL_SLICE_MANAGED_BY}={names.SLICE_MANAGER}"
    by_addresses = await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=labels)
    assert by_routers or by_addresses
    return not by_routers


async def test_services_reach_other_clusters_by_skupper(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "ASK_SECONDS", 0.5)
    monkeypatch.setattr(driver, "AGAIN_SECONDS", 0.3)
    monkeypatch.setattr(handover, "KEEP_SECONDS", 6.0)
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    network.refusals = 1
    async with (
        installed((pair.here, pair.there), KINDS),
        shared_with_eu(pair),
        pair.at_work(
            ServiceLinksRoom, EndpointsRoom, GlobalServices, service_links=True, skupper=True, discovery_interval=1.0
        ),
        network.at_work(),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.shared_by("True", "EndpointSlices")
        await pair.here.patch(SERVICES, "web", {"spec": {"selector": {"app": "web"}}}, pair.namespace)
        await pair.copy(SERVICES, "web", lambda copy: bool(copy["spec"].get("selector")))
        await links.offer(pair.here, "10.1.0.1")
        await links.offer(pair.there, "10.2.0.1")
        foreign = {"metadata": {"name": host(pair.namespace, "web")}, "spec": {"ports": [{"port": 1}]}}
        await pair.here.create(SERVICES, foreign, pair.namespace)
        await links.annotate(network_driver="skupper")
        message = await links.says("Ready", "False", "NoSite")
        assert f"annotate namespace {pair.namespace} multicluster/skupper-site: true" in message
        for client in (pair.here, pair.there):
            for connector in await listed(pair, client, CONNECTORS, 2):
                spec = connector["spec"]
                assert spec["selector"] == "app=web"
                assert spec["routingKey"] == f"{pair.namespace}.web.{spec['port']}"
            await listed(pair, client, LISTENERS, 2)
        await links.mirrored(pair.here, [])

        # The first token comes too late: there is a second one.
        annotation = {"metadata": {"annotations": {"multicluster/skupper-site": "true"}}}
        await pair.here.patch(NAMESPACES, pair.namespace, annotation)
        await links.once(lambda link: "already exists in namespace" in condition(link, "Connected")[2])
        assert condition(await links.once(lambda link: True), "Connected")[1] == "Conflict"
        await pair.here.delete(SERVICES, foreign["metadata"]["name"], pair.namespace)
        good = await links.once(lambda link: condition(link, "Ready")[0] == "True")
        assert rows(good) == [("here", ["eu"], "skupper", "Connected"), ("eu", ["here"], "skupper", "Connected")]
        assert network.codes == ["code-0", "code-1"]
        (token,) = await listed(pair, pair.there, SKUPPER_TOKENS, 1)
        assert token["status"]["redeemed"]
        sites = {}
        for name, client in network.clusters.items():
            (site,) = await listed(pair, client, SITES, 1)
            sites[name] = site["spec"].get("linkAccess")
        assert sites == {"here": "default", "eu": None}
        for name, client in network.clusters.items():
            await routed(pair, client, [(network.routers[name], ["http", "admin"])])

        network.ready = {"here"}
        message = await links.says("Programmed", "False", "NoEndpoints")
        assert "No matches for selector" in message
        network.ready = set()
        await links.once(lambda link: "No matching connectors" in condition(link, "Connected")[2])
        network.ready = {"here", "eu"}
        await links.says("Ready", "True", "Ready")

        await links.change(ports=[80])
        for client in (pair.here, pair.there):
            await listed(pair, client, LISTENERS, 1)
        await links.annotate(network_driver=None)
        await until(lambda: led_by_addresses(pair))
        for client in (pair.here, pair.there):
            for kind in (LISTENERS, CONNECTORS):
                await listed(pair, client, kind, 0)
            await routed(pair, client, [])
        await links.mirrored(pair.here, [("10.2.0.1", True, ["http"])])
