"""The driver `skupper` on real API servers, with a double of Skupper's controllers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLES,
    CONNECTORS,
    ENDPOINT_SLICES,
    LISTENERS,
    NAMESPACES,
    SERVICES,
    SITES,
    SKUPPER_GRANTS,
    SKUPPER_LINKS,
    SKUPPER_TOKENS,
    Kind,
)
from agent.api.roles import EVERYTHING, rules
from agent.drivers import handover, skuppersites
from agent.drivers import skupper as driver
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.model.skupper import MANAGER, host
from agent.model.skuppersites import grant, grant_name, token_name
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.links import ServiceLinksController, controller
from tests.controllers.counting import counting_writes
from tests.controllers.installed import served_by_both
from tests.controllers.limited import limited
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import PORTS, SHARED, Links, condition, rows, shared_with_eu
from tests.controllers.skupper import KINDS, LATE, WRONG_CODE, Skupper, named
from tests.waiting import until

pytestmark = pytest.mark.cluster
served = served_by_both(KINDS)

Raw = dict[str, Any]

CONTROLLERS = (ServiceLinksController, EndpointsController, GlobalServices)
SETTINGS = {"service_links": True, "skupper": True, "discovery_interval": 1.0}
ASKED = {"metadata": {"annotations": {"multicluster/skupper-site": "true"}}}
AGAIN = 0.3


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "ASK_SECONDS", 0.5)
    monkeypatch.setattr(driver, "AGAIN_SECONDS", AGAIN)
    monkeypatch.setattr(skuppersites, "BELIEVED_SECONDS", AGAIN)
    monkeypatch.setattr(handover, "KEEP_SECONDS", 6.0)


@contextlib.asynccontextmanager
async def chosen(pair: Pair, network: Skupper, connection: Connection | None = None) -> AsyncIterator[Links]:
    """Run the driver for a Service with endpoints in both clusters."""
    async with (
        shared_with_eu(pair),
        pair.at_work(*CONTROLLERS, connection=connection, **SETTINGS),
        network.at_work(),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offered_by_both("Skupper", selector={"app": "web"})
        yield links


def node_of(pair: Pair) -> str:
    return names.virtual_node(pair.namespace, "eu")


def reached(link: Raw) -> bool:
    return condition(link, "Ready")[0] == "True" and {row[2:] for row in rows(link)} == {("skupper", "Connected")}


async def listed(pair: Pair, client: Client, kind: Kind, want: int) -> list[Raw]:
    async def probe() -> list[Raw] | None:
        found = await client.list(kind, pair.namespace)
        return [*found, {}] if len(found) == want else None

    return (await until(probe) or [])[:-1]


async def routed(pair: Pair, client: Client, want: list[tuple[str, list[str]]]) -> None:
    """Wait until our slices have these router addresses and port names."""

    async def probe() -> bool:
        labels = f"{names.LABEL_SERVICE_NAME}=web,{names.LABEL_SLICE_MANAGED_BY}={MANAGER}"
        found = await client.list(ENDPOINT_SLICES, pair.namespace, labels=labels)
        return want == [
            (each["endpoints"][0]["addresses"][0], [port["name"] for port in each["ports"]]) for each in found
        ]

    await until(probe)


async def led_by_addresses(pair: Pair) -> bool:
    """Return whether routers are no longer used; assert that a path exists at all times."""
    by_routers = await pair.here.list(LISTENERS, pair.namespace)
    labels = f"{names.LABEL_SLICE_MANAGED_BY}={names.SLICE_MANAGER}"
    by_addresses = await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=labels)
    assert by_routers or by_addresses
    return not by_routers


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_services_reach_other_clusters_by_skupper(pair: Pair) -> None:
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    network.refusals = [LATE]
    async with (
        shared_with_eu(pair),
        pair.at_work(*CONTROLLERS, **SETTINGS),
        network.at_work(),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offered_by_both(selector={"app": "web"})
        foreign = {"metadata": {"name": host(pair.namespace, "web")}, "spec": {"ports": [{"port": 1}]}}
        await pair.here.create(SERVICES, foreign, pair.namespace)
        await links.annotate(network_driver="skupper")
        await links.says(
            "Ready", "False", "NoSite", f"annotate namespace {pair.namespace} multicluster/skupper-site: true"
        )
        for client in (pair.here, pair.there):
            for connector in await listed(pair, client, CONNECTORS, 2):
                spec = connector["spec"]
                assert spec["selector"] == "app=web"
                assert spec["routingKey"] == f"{pair.namespace}.web.{spec['port']}"
            await listed(pair, client, LISTENERS, 2)
        await links.mirrored(pair.here, [])

        # The first token expires, so a second one is created.
        await pair.here.patch(NAMESPACES, pair.namespace, ASKED)
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
        await links.says("Programmed", "False", "NoEndpoints", "No matches for selector")
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


@pytest.mark.seldom
async def test_what_keeps_a_cluster_out_is_told_in_skuppers_words(pair: Pair) -> None:
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    network.granting = {"Processed": "Invalid duration"}
    mine = {"host": host(pair.namespace, "web"), "port": 80, "routingKey": "mine", "type": "tcp"}
    async with chosen(pair, network) as links:

        async def says(reason: str, *words: str) -> str:
            def fits(link: Raw) -> bool:
                _, why, message = condition(link, "Connected")
                return why == reason and all(each in message for each in words)

            return condition(await links.once(fits), "Connected")[2]

        await says("NoSite", "here from eu", "eu from here")
        await pair.here.patch(NAMESPACES, pair.namespace, ASKED)
        # A fault in one of two clusters blocks both directions.
        granted = f"AccessGrant {grant_name(node_of(pair))}"
        await says("SkupperError", "here from eu", "eu from here", f"{granted}: Invalid duration")
        network.granting = {"Resolved": "Pending"}
        await says("Pending", "eu from here", f"no link to this cluster is made: {granted}: not Resolved yet")
        network.sites = {"here": {"Resolved": "Pending"}}
        await says("Pending", "eu from here", "no link to this cluster is made: Site flotilla: not Resolved yet")
        network.refusals, network.sites, network.granting = 100 * [WRONG_CODE], {}, {}
        message = await says("PeerUnreachable", "here from eu", "403 (Forbidden)")
        assert pair.deps is not None
        assert f"AccessToken {token_name(node_of(pair), pair.deps.cluster_uid)}: Controller got" in message
        network.refusals.clear()
        await links.once(reached)

        network.down = {"eu": {"Operational": "Not operational"}}
        (link,) = await listed(pair, pair.there, SKUPPER_LINKS, 1)
        await says("PeerUnreachable", "here from eu", "eu from here", f"Link {link['metadata']['name']}: Not oper")
        network.down = {"eu": {"Configured": "no such Secret", "Operational": "Not operational"}}
        await says("PeerUnreachable", "eu from here", f"Link {link['metadata']['name']}: no such Secret")
        network.down = {}
        await links.once(reached)
        await pair.there.delete(SKUPPER_LINKS, link["metadata"]["name"], pair.namespace)
        await says("PeerUnreachable", "there is no Link: delete it, so that another one is made")
        await pair.there.delete(SKUPPER_TOKENS, link["metadata"]["name"], pair.namespace)
        await links.once(reached)

        network.sites = {"eu": {"Running": "no router is ready"}}
        message = await says(
            "SkupperError", "here from eu: in target ", "eu from here: Site flotilla: no router is ready"
        )
        assert message.count("Site flotilla: no router is ready") == 2
        network.sites = {}
        await links.once(reached)
        # A user's Listener existed first.
        await pair.create(LISTENERS, "a-first", spec=mine)
        await pair.here.delete(LISTENERS, "web-80-link", pair.namespace)
        await says("SkupperError", "here from eu: Listener web-80-link", "Listener a-first")
        await pair.here.delete(LISTENERS, "a-first", pair.namespace)
        await links.once(reached)


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_a_headless_service_is_not_led_to_routers(pair: Pair) -> None:
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    async with chosen(pair, network) as links:
        spec = {"ports": PORTS, "clusterIP": "None", "selector": {"app": "db"}}
        await pair.create(SERVICES, "db", metadata=SHARED, spec=spec)
        await pair.copy(SERVICES, "db")
        await links.offer(pair.here, "10.1.0.2", "db")
        await links.offer(pair.there, "10.2.0.2", "db")
        await pair.here.patch(NAMESPACES, pair.namespace, ASKED)
        await links.once(reached)
        found = await links.once(lambda link: condition(link, "Ready")[1] == "HeadlessUnsupported", "db")
        assert [row[3] for row in rows(found)] == 2 * ["HeadlessUnsupported"]
        assert "give it a cluster IP" in condition(found, "Ready")[2]
        await asyncio.sleep(3 * AGAIN)
        for client in (pair.here, pair.there):
            for kind in (CONNECTORS, LISTENERS):
                assert {
                    each["metadata"]["labels"]["multicluster/skupper"] for each in await listed(pair, client, kind, 2)
                } == {"web"}
            labels = f"{names.LABEL_SERVICE_NAME}=db,{names.LABEL_SLICE_MANAGED_BY}={MANAGER}"
            assert await client.list(ENDPOINT_SLICES, pair.namespace, labels=labels) == []


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_another_source_of_a_target_has_a_link_of_its_own(pair: Pair) -> None:
    """A token of an earlier version, which did not distinguish sources, stays the only one."""
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    name = grant_name(node_of(pair))
    async with chosen(pair, network) as links:
        # The state that a source of an earlier version left: its grant is not in this cluster.
        spec = {"url": "https://10.0.0.2:9090/x", "code": "another's", "ca": "PEM"}
        token = named(SKUPPER_TOKENS, name, spec, **{"multicluster/skupper": ""})
        await pair.there.create(SKUPPER_TOKENS, token, pair.namespace)
        redeemed = {"status": {"status": "Ready", "redeemed": True}}
        await pair.there.patch(SKUPPER_TOKENS, name, redeemed, pair.namespace, sub="status")
        await pair.here.patch(NAMESPACES, pair.namespace, ASKED)
        await links.once(reached)
        assert pair.deps is not None
        mine = token_name(node_of(pair), pair.deps.cluster_uid)
        found = await listed(pair, pair.there, SKUPPER_TOKENS, 2)
        assert {each["metadata"]["name"] for each in found} == {name, mine}
        assert [each["metadata"]["name"] for each in await listed(pair, pair.there, SKUPPER_LINKS, 1)] == [mine]


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_a_link_of_an_earlier_version_stays_the_only_one(pair: Pair) -> None:
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    name = grant_name(node_of(pair))
    async with chosen(pair, network) as links:
        await pair.here.create(SKUPPER_GRANTS, grant(pair.namespace, node_of(pair)))
        await pair.there.create(SITES, named(SITES, "mine", {}), pair.namespace)

        async def granted() -> Raw | None:
            found = await pair.here.get(SKUPPER_GRANTS, name, pair.namespace)
            return found if "code" in found.get("status", {}) else None

        said = (await until(granted) or {})["status"]
        spec = {key: said[key] for key in ("url", "code", "ca")}
        token = named(SKUPPER_TOKENS, name, spec, **{"multicluster/skupper": ""})
        await pair.there.create(SKUPPER_TOKENS, token, pair.namespace)
        await listed(pair, pair.there, SKUPPER_LINKS, 1)
        await pair.here.patch(NAMESPACES, pair.namespace, ASKED)
        await links.once(reached)
        await asyncio.sleep(3 * AGAIN)
        for kind in (SKUPPER_TOKENS, SKUPPER_LINKS):
            assert [each["metadata"]["name"] for each in await listed(pair, pair.there, kind, 1)] == [name]
        assert network.codes == ["code-0"]


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_a_source_that_may_not_look_at_links_is_told_by_listeners(pair: Pair, tmp_path: Path) -> None:
    """Sources that joined before the role had that right."""
    few = [each for each in EVERYTHING if each.kind != SKUPPER_LINKS]
    agents = {"apiGroups": [CHAPERONS.group], "resources": ["*"], "verbs": ["*"]}
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    async with (
        limited(pair.clusters[1], pair.there, pair.namespace, tmp_path, [*rules(few), agents]) as weak,
        chosen(pair, network, load(str(weak.kubeconfig))) as links,
    ):
        await pair.here.patch(NAMESPACES, pair.namespace, ASKED)
        await links.once(reached)
        network.ready, network.down = {"here"}, {"eu": {"Operational": "Not operational"}}
        message = await links.says("Connected", "False", "NoMatchingConnector")
        assert "Not operational" not in message
        await pair.there.patch(CLUSTER_ROLES, pair.namespace, {"rules": [*rules(EVERYTHING), agents]})
        await links.says("Connected", "False", "PeerUnreachable")


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_what_is_in_line_is_not_written_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = counting_writes(monkeypatch)
    network = Skupper(pair.namespace, here=pair.here, eu=pair.there)
    async with chosen(pair, network) as links:
        await pair.here.patch(NAMESPACES, pair.namespace, ASKED)
        await links.once(reached)
        for client in (pair.here, pair.there):
            await listed(pair, client, LISTENERS, 2)
            await listed(pair, client, CONNECTORS, 2)
        for name, client in network.clusters.items():
            await routed(pair, client, [(network.routers[name], ["http", "admin"])])
        await asyncio.sleep(1.0)
        writes.clear()
        await asyncio.sleep(5 * AGAIN)
        assert writes == []
