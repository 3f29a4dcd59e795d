"""The driver `linkerd` on real API servers, with a double of Linkerd's controllers; no mesh runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, CLUSTER_ROLES, LINKERD_LINKS, SERVICES
from agent.api.roles import EVERYTHING, rules
from agent.drivers import handover, meshes
from agent.drivers import linkerd as driver
from agent.kube.client import Client
from agent.kube.config import load
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController, networkdriver
from agent.services.links import ServiceLinksController, controller
from tests.controllers.counting import counting_writes
from tests.controllers.installed import served_by_both
from tests.controllers.limited import limited
from tests.controllers.linkerd import KINDS, Linkerd, link
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, condition, rows, shared_with_eu, summaries
from tests.controllers.target_links import condition as target_condition
from tests.waiting import at_rest, until

pytestmark = pytest.mark.cluster
served = served_by_both(KINDS)

Raw = dict[str, Any]

MEMBER, OURS = "mirror.linkerd.io/federated", "multicluster/linkerd"
CONTROLLERS = (ServiceLinksController, EndpointsController, GlobalServices)
SETTINGS = {"service_links": True, "discovery_interval": 0.5, "linkerd": True, "cluster_name": "home"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "ASK_SECONDS", 0.5)
    monkeypatch.setattr(handover, "KEEP_SECONDS", 4.0)
    monkeypatch.setattr(networkdriver, "RECHECK_SECONDS", 0.3)
    for module in (meshes, driver):
        monkeypatch.setattr(module, "BELIEVED_SECONDS", 0.3)


async def labelled(pair: Pair, client: Client, member: str | None, ours: str | None) -> None:
    """Wait until a cluster's Service has these labels of Linkerd."""

    async def probe() -> bool:
        labels = (await client.get(SERVICES, "web", pair.namespace))["metadata"]["labels"]
        return (labels.get(MEMBER), labels.get(OURS)) == (member, ours)

    await until(probe)


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_services_are_members_of_linkerds_federated_services(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = counting_writes(monkeypatch)
    network = Linkerd(pair.namespace, home=pair.here, eu=pair.there)
    async with (
        shared_with_eu(pair),
        summaries(pair),
        pair.at_work(NetworkDriverController, *CONTROLLERS, **SETTINGS),
        network.at_work(),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)

        async def said(reason: str) -> None:
            await target_condition(pair.here, pair.namespace, "eu", "ServicesShared", "True", reason)

        await said("EndpointSlices")
        await pair.copy(SERVICES, "web")
        await links.offer(pair.here, "10.1.0.1")
        await links.offer(pair.there, "10.2.0.1")
        await links.mirrored(pair.here, [("10.2.0.1", True, ["http", "admin"])])
        await labelled(pair, pair.here, None, None)

        # The driver is named without a Link: each row reports which one is missing, and how to create it.
        await links.annotate(network_driver="linkerd")
        await labelled(pair, pair.here, "member", "federated")
        await labelled(pair, pair.there, "member", None)
        await links.mirrored(pair.here, [])
        await links.says(
            "Ready",
            "False",
            "NoPath",
            "home from eu: it has no Link to eu",
            "linkerd multicluster link-gen --cluster-name home",
        )
        network.problems["eu"] = ("MissingNamespace", "Namespace does not exist")
        await link(pair.here, pair.namespace, "eu")
        await link(pair.there, pair.namespace, "home")
        message = await links.says("Ready", "False", "MissingNamespace")
        assert message == "eu from home: its Link to home: Namespace does not exist"
        network.problems.clear()
        found = await links.once(lambda link: condition(link, "Ready")[0] == "True")
        assert rows(found) == [("home", ["eu"], "linkerd", "Connected"), ("eu", ["home"], "linkerd", "Connected")]
        assert found["status"]["host"] == "web-federated"
        # Correct objects are checked repeatedly, and not written.
        before = await at_rest(lambda: len(writes))
        await asyncio.sleep(2.0)
        assert len(writes) == before

        # The user's labels stay on the Service, and ours are removed with the driver.
        await links.annotate(network_driver=None)
        await labelled(pair, pair.here, None, None)
        await labelled(pair, pair.there, None, None)
        await links.mirrored(pair.there, [("10.1.0.1", True, ["http", "admin"])])
        body = {"metadata": {"labels": {MEMBER: "no"}}}
        await pair.here.patch(SERVICES, "web", body, pair.namespace)
        await links.annotate(network_driver="linkerd")
        await links.says("Programmed", "False", "Conflict", f"labelled {MEMBER}: no")
        await links.annotate(network_driver=None)
        await links.says("Programmed", "True", "Programmed")
        await labelled(pair, pair.here, "no", None)


async def test_linkerd_is_chosen_where_links_lead_both_ways(pair: Pair) -> None:
    async def said(reason: str) -> None:
        await target_condition(pair.here, pair.namespace, "eu", "ServicesShared", "True", reason)

    async with shared_with_eu(pair), summaries(pair):
        await link(pair.here, pair.namespace, "eu")
        await link(pair.there, pair.namespace, "us")
        async with pair.at_work(NetworkDriverController, **SETTINGS):
            await said("EndpointSlices")
        await link(pair.there, pair.namespace, "home")
        await Links(pair, "").shared_by("Unknown", "Pending")
        async with pair.at_work(NetworkDriverController, **SETTINGS):
            await said("Linkerd")
            await pair.here.delete(LINKERD_LINKS, "eu", pair.namespace)
            await said("EndpointSlices")


async def test_a_target_that_lets_nobody_look_at_links_is_told_of_all_the_same(pair: Pair, tmp_path: Path) -> None:
    few = [grant for grant in EVERYTHING if grant.kind != LINKERD_LINKS]
    agents = {"apiGroups": [CHAPERONS.group], "resources": ["*"], "verbs": ["*"]}
    network = Linkerd(pair.namespace, home=pair.here, eu=pair.there)
    async with (
        shared_with_eu(pair),
        limited(pair.clusters[1], pair.there, pair.namespace, tmp_path, [*rules(few), agents]) as weak,
        pair.at_work(*CONTROLLERS, connection=load(str(weak.kubeconfig)), **SETTINGS),
        network.at_work(),
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await link(pair.here, pair.namespace, "eu")
        await links.shared_by("True", "Linkerd")
        await pair.copy(SERVICES, "web")
        await links.offer(pair.here, "10.1.0.1")
        await links.says("Connected", "Unknown", "Unverified", "may not be looked at", "links")
        await links.says("Ready", "True", "Ready")
        # The rights of a Source that allows `linkerd` suffice.
        await pair.there.patch(CLUSTER_ROLES, pair.namespace, {"rules": [*rules(EVERYTHING), agents]})
        await links.says("Connected", "False", "NoPath", "eu from home: it has no Link to home")
