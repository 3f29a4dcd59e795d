"""ServiceLinks on real API servers: created for shared Services, narrowed by users, with their status."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.crds import crds
from agent.api.kinds import CRDS, ENDPOINT_SLICES, EVENTS, SERVICE_LINKS, SERVICES
from agent.base.metrics import REQUESTS
from agent.clusters.deps import Deps
from agent.kube.errors import NotFound
from agent.services.copies import GlobalServices
from agent.services.endpoints.controller import EndpointsController
from agent.services.links import ServiceLinksController
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import PORTS, SHARED, Links, condition, rows, shared_with_eu
from tests.controllers.starting import running
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

BOTH = [("here", ["eu"], "endpointslices", "Unverified"), ("eu", ["here"], "endpointslices", "Unverified")]
HTTP_AND_ADMIN = ["http", "admin"]


@pytest_asyncio.fixture
async def found(pair: Pair) -> AsyncIterator[list[Any]]:
    async with shared_with_eu(pair):
        yield []


async def test_a_shared_service_has_a_link_that_says_who_reaches_whom(pair: Pair, found: list[Any]) -> None:
    controllers = list[ServiceLinksController]()

    def links_controller(deps: Deps) -> ServiceLinksController:
        controllers.append(ServiceLinksController(deps))
        return controllers[-1]

    async with pair.at_work(
        links_controller, EndpointsController, GlobalServices, service_links=True, discovery_interval=0.3
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.says("Programmed", "True", "Programmed")
        await links.says("Ready", "False", "NoEndpoints", "no endpoint is ready")
        await links.offered_by_both()

        made = await links.once(lambda link: rows(link) == BOTH and condition(link, "Ready")[0] == "True")
        service = await pair.here.get(SERVICES, "web", pair.namespace)
        assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == [service["metadata"]["uid"]]
        assert made["status"]["host"] == "web"
        assert [row["endpoints"] for row in made["status"]["clusters"]] == [1, 1]
        await links.mirrored(pair.here, [("10.2.0.1", True, HTTP_AND_ADMIN)])

        version = made["metadata"]["resourceVersion"]
        for _ in range(3):
            await controllers[0].reconcile((pair.namespace, "web"))
            await asyncio.sleep(0.2)
        after = await pair.here.get(SERVICE_LINKS, "web", pair.namespace)
        assert after["metadata"]["resourceVersion"] == version, "what is told already is not written again"

        words = "10.0.0.0/8 is in the pod networks of both: name the right ranges"
        await links.shared_by("False", "PodNetworksOverlap", words)
        await links.says("Ready", "False", "NoPath", words)
        events = await until(lambda: _events(pair, "NoPath"))
        assert "Warning" in {each["type"] for each in events or ()}
        await links.shared_by("True", "EndpointSlices", "its agent answers at the address of its pod")
        await links.says("Connected", "True", "Connected")


async def _events(pair: Pair, reason: str, kind: str = "ServiceLink") -> list[Raw]:
    found = await pair.here.list(EVENTS, pair.namespace)
    return [each for each in found if each["involvedObject"]["kind"] == kind and each["reason"] == reason]


async def test_what_users_write_in_a_link_and_on_a_service_is_done(pair: Pair, found: list[Any]) -> None:
    async with pair.at_work(ServiceLinksController, EndpointsController, GlobalServices, service_links=True):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offered_by_both()
        await links.once(lambda link: rows(link) == BOTH)

        await links.change(**{"from": ["here"], "ports": [80]})
        await links.once(lambda link: rows(link) == BOTH[1:])
        await links.mirrored(pair.here, [])
        await links.mirrored(pair.there, [("10.1.0.1", True, ["http"])])
        # A second ServiceLink adds its request.
        await pair.create(SERVICE_LINKS, "more", spec={"service": "web", "to": [{"cluster": "local-cluster"}]})
        await links.mirrored(pair.here, [("10.2.0.1", True, HTTP_AND_ADMIN)])
        assert rows(await links.once(lambda link: bool(rows(link)), "more")) == BOTH[:1]
        await pair.here.delete(SERVICE_LINKS, "more", pair.namespace)
        await links.mirrored(pair.here, [])

        await links.change(**{"from": ["mars"], "ports": None})
        await links.says("Accepted", "False", "UnknownCluster", "mars")
        await links.mirrored(pair.there, [])
        await links.change(**{"from": None, "affinity": "local"})
        await links.mirrored(pair.there, [("10.1.0.1", False, HTTP_AND_ADMIN)])
        await pair.there.delete(ENDPOINT_SLICES, "web-own", pair.namespace)
        await links.mirrored(pair.there, [("10.1.0.1", True, HTTP_AND_ADMIN)])
        await links.change(affinity="remote")
        await links.says("Accepted", "True", "Accepted", "affinity remote has no effect with the driver endpointslices")
        await links.change(affinity="local")
        # Endpoints in the callers' own cluster do not count as offered by the link.
        await links.change(**{"from": ["eu"]})
        await links.says("Ready", "False", "NoEndpoints", "ready in eu, which spec.from names")
        await links.change(**{"from": None})
        await links.says("Connected", "Unknown", "Unverified")

        # If two links conflict, the first by name has precedence, and the other one reports the conflict.
        await pair.create(SERVICE_LINKS, "also", spec={"service": "web", "driver": "none"})
        await links.change(driver="endpointslices")
        await links.says(
            "Accepted", "False", "Conflict", "spec.driver: endpointslices has no effect, for ServiceLink also"
        )
        await links.mirrored(pair.there, [])
        await pair.here.delete(SERVICE_LINKS, "also", pair.namespace)
        await links.says("Accepted", "True", "Accepted")
        await links.change(driver=None)

        await links.change(affinity=None)
        await links.annotate(network_driver="none")
        await links.says("Ready", "False", "NoPath", "driver is none")
        await links.mirrored(pair.there, [])
        await links.annotate(network_driver="wormhole", affinity="local")
        await links.says("Accepted", "False", "UnknownDriver", "choose one of endpointslices")
        await until(lambda: _events(pair, "InvalidAnnotation", "Service"))
        await links.mirrored(pair.there, [("10.1.0.1", True, HTTP_AND_ADMIN)])
        await links.offer(pair.there, "10.2.0.1")
        await links.mirrored(pair.there, [("10.1.0.1", False, HTTP_AND_ADMIN)])


async def test_a_link_goes_with_what_it_is_about_and_a_users_own_stays(pair: Pair, found: list[Any]) -> None:
    mine = {"service": "db", "from": ["eu"]}
    await pair.create(SERVICE_LINKS, "db", spec=mine)
    await pair.create(SERVICE_LINKS, "nothing", spec={})
    await pair.create(SERVICES, "db", metadata=SHARED, spec={"ports": PORTS})
    async with pair.at_work(ServiceLinksController, service_links=True):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.once(lambda link: True)
        await links.once(lambda link: condition(link, "Accepted")[1] == "NoService", "nothing")
        await links.once(lambda link: condition(link, "Accepted")[1] == "Accepted", "db")
        for name in ("web", "db"):
            unshared = {"metadata": {"annotations": {"multicluster/global": None}}}
            await pair.here.patch(SERVICES, name, unshared, pair.namespace)

        async def gone() -> bool:
            return [each["metadata"]["name"] for each in await pair.here.list(SERVICE_LINKS, pair.namespace)] == [
                "db",
                "nothing",
            ]

        await until(gone)
        kept = await links.once(lambda link: condition(link, "Ready")[1] == "NoService", "db")
        assert kept["spec"] == mine
        assert "multicluster/global" in condition(kept, "Ready")[2]


async def test_a_users_link_that_has_the_name_of_another_service_is_not_tried_to_be_made_again(
    pair: Pair, found: list[Any]
) -> None:
    await pair.create(SERVICE_LINKS, "web", spec={"service": "other"})
    async with pair.at_work(ServiceLinksController, EndpointsController, service_links=True, discovery_interval=0.3):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.says("Accepted", "False", "NoService", "no Service other")
        before = _created()
        for number in range(3):
            await links.annotate(**{"note": str(number)})
            await asyncio.sleep(0.3)
        assert _created() == before


def _created() -> float:
    """Return how often the creation of a ServiceLink was tried."""
    samples = (sample for metric in REQUESTS.collect() for sample in metric.samples)
    wanted = {"method": "POST", "resource": "servicelinks"}
    return sum(each.value for each in samples if each.name.endswith("_total") and wanted.items() <= each.labels.items())


async def test_a_target_that_is_cut_off_is_told_in_its_rows_and_in_no_other(pair: Pair, found: list[Any]) -> None:
    async with (
        Relay.started(pair.connection) as relay,
        pair.at_work(
            ServiceLinksController, EndpointsController, GlobalServices, connection=relay.connection, service_links=True
        ) as eu,
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.offered_by_both()
        await links.once(lambda link: rows(link) == BOTH)
        relay.cut()
        cut = await links.once(lambda link: {row[3] for row in rows(link)} == {"TargetUnreachable"})
        # Its callers get no endpoints; whether its endpoints are reachable is unknown.
        ready = {row["cluster"]: row["ready"] for row in cut["status"]["clusters"]}
        assert ready == {"here": "Unknown", "eu": "False"}
        assert condition(cut, "Programmed")[:2] == ("False", "TargetUnreachable")
        assert "eu from here: Target eu: " in condition(cut, "Ready")[2]
        await links.mirrored(pair.here, [("10.2.0.1", True, HTTP_AND_ADMIN)])
        relay.mend()
        await links.once(lambda link: rows(link) == BOTH and condition(link, "Ready")[0] == "True")
        assert eu.ready


async def test_what_is_told_stays_while_an_agent_that_has_started_connects(pair: Pair, found: list[Any]) -> None:
    controllers = list[ServiceLinksController]()

    def links_controller(deps: Deps) -> ServiceLinksController:
        controllers.append(ServiceLinksController(deps))
        return controllers[-1]

    async with pair.at_work(links_controller, EndpointsController, GlobalServices, service_links=True):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.shared_by("True", "EndpointSlices")
        await pair.copy(SERVICES, "web")
        await links.offer(pair.there, "10.2.0.1")
        told = await links.once(lambda link: rows(link) == BOTH[:1])
    async with running(
        pair.clusters[0], links_controller, EndpointsController, GlobalServices, service_links=True
    ) as deps:
        pair.deps = deps
        await until(lambda: controllers[-1].queue.statistics().delayed)
        eu = await pair.connect("eu")
        await until(lambda: eu.ready and not sum(controllers[-1].queue.statistics()[:3]))
        await controllers[-1].reconcile((pair.namespace, "web"))
        after = await pair.here.get(SERVICE_LINKS, "web", pair.namespace)
        assert after["metadata"]["resourceVersion"] == told["metadata"]["resourceVersion"]
        assert after["status"] == told["status"]


async def test_without_their_crd_endpoints_are_told_all_the_same(
    pair: Pair, found: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (crd,) = (each for each in crds() if each["metadata"]["name"] == str(SERVICE_LINKS))
    await pair.here.delete(CRDS, str(SERVICE_LINKS))

    async def is_gone() -> bool:
        try:
            await pair.here.list(SERVICE_LINKS, pair.namespace)
        except NotFound:
            return True
        return False

    try:
        await until(is_gone)
        async with pair.at_work(
            ServiceLinksController, EndpointsController, GlobalServices, service_links=True, discovery_interval=0.3
        ):
            assert pair.deps is not None
            links = Links(pair, pair.deps.cluster_uid)
            await links.shared_by("True", "EndpointSlices")
            await pair.copy(SERVICES, "web")
            await links.offer(pair.there, "10.2.0.1")
            await links.mirrored(pair.here, [("10.2.0.1", True, HTTP_AND_ADMIN)])
            said = [each for each in caplog.messages if str(SERVICE_LINKS) in each and "not watched" in each]
            assert len(said) == 1
            await pair.here.create(CRDS, crd)
            await until(lambda: _served(links))
    finally:
        if await is_gone():
            await pair.here.create(CRDS, crd)


async def _served(links: Links) -> bool:
    try:
        await links.pair.here.get(SERVICE_LINKS, "web", links.pair.namespace)
    except NotFound:
        return False
    return True
