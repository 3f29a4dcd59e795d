"""ServiceLinks into other namespaces, on real API servers: their Services, endpoints and status."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_TARGETS, NAMESPACES, SERVICE_LINKS, SERVICES
from agent.api.names.links import LABEL_LINK_OF
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.links import ServiceLinksController
from tests.controllers.pair import Pair
from tests.controllers.proxies import enable
from tests.controllers.servicelinks import PORTS, SHARED, Links, by_driver, condition
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


class Elsewhere:
    """Another namespace in both clusters, and a ClusterTarget named after the first namespace."""

    def __init__(self, pair: Pair, deps: Deps) -> None:
        self.pair = pair
        self.namespace = f"{pair.namespace}-b"
        self.links = Links(pair, deps.cluster_uid)

    async def service(self, client: Client, name: str = "web") -> Raw:
        return await until(functools.partial(client.get, SERVICES, name, self.namespace))

    async def gone(self, client: Client, name: str = "web") -> None:
        async def probe() -> bool:
            try:
                await client.get(SERVICES, name, self.namespace)
            except NotFound:
                return True
            return False

        await until(probe)

    async def link(self, name: str, service: str, *to: tuple[str, str], **spec: Any) -> None:
        consumers = [{"cluster": cluster, "namespace": namespace} for cluster, namespace in to]
        await self.pair.create(SERVICE_LINKS, name, spec={"service": service, "to": consumers, **spec})


async def shared_by(pair: Pair, driver: str) -> None:
    """Set the condition that the network driver controller publishes on the ClusterTarget."""
    status = by_driver("True", driver)
    await pair.here.patch(CLUSTER_TARGETS, pair.namespace, {"status": status}, sub="status")


@contextlib.asynccontextmanager
async def elsewhere(pair: Pair) -> AsyncIterator[Elsewhere]:
    cluster = {"apiVersion": CLUSTER_TARGETS.api_version, "kind": CLUSTER_TARGETS.name}
    spec = {"kubeconfigSecret": {"namespace": pair.namespace, "name": "none"}}
    await pair.here.create(CLUSTER_TARGETS, {**cluster, "metadata": {"name": pair.namespace}, "spec": spec})
    await shared_by(pair, "EndpointSlices")
    for client in (pair.here, pair.there):
        await client.create(NAMESPACES, {"metadata": {"name": f"{pair.namespace}-b"}})
    await enable(pair.here, f"{pair.namespace}-b")
    controllers = (ServiceLinksController, EndpointsController, GlobalServices)
    try:
        async with running(pair.clusters[0], *controllers, service_links=True, link_namespaces=True) as deps:
            target = await deps.targets.connect(("", pair.namespace), pair.connection, "first")
            await until(lambda: target.ready)
            yield Elsewhere(pair, deps)
    finally:
        await pair.here.delete(CLUSTER_TARGETS, pair.namespace)
        for client in (pair.here, pair.there):
            await client.delete(NAMESPACES, f"{pair.namespace}-b")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_callers_in_another_namespace_have_a_service_of_their_own(pair: Pair) -> None:
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS, "selector": {"app": "web"}})
    async with elsewhere(pair) as found:
        links, there = found.links, found.namespace
        await pair.copy(SERVICES, "web")
        await links.offer(pair.here, "10.1.0.1")
        await links.offer(pair.there, "10.2.0.1")
        await found.link("for-b", "web", (pair.namespace, there), ports=[80])

        made, copy = await found.service(pair.here), await found.service(pair.there)
        assert LABEL_LINK_OF in made["metadata"]["labels"]
        for service in (made, copy):
            assert "selector" not in service["spec"]
            assert [port["port"] for port in service["spec"]["ports"]] == [80]
        # The target's own endpoints, too; the link does not include callers of the source.
        both = [("10.1.0.1", True, ["http"]), ("10.2.0.1", True, ["http"])]
        await links.mirrored(pair.there, both, there)
        await links.mirrored(pair.here, [], there)
        link = await links.once(
            lambda link: len(link["status"]["clusters"]) == 2 and condition(link, "Ready")[0] == "True", "for-b"
        )
        assert {(row["cluster"], row["namespace"], *row["from"]) for row in link["status"]["clusters"]} == {
            (pair.namespace, there, "here"),
            (pair.namespace, there, pair.namespace),
        }
        kept = await links.once(lambda link: bool(link["status"].get("clusters")))
        assert {row["namespace"] for row in kept["status"]["clusters"]} == {pair.namespace}
        with pytest.raises(NotFound):
            await pair.here.get(SERVICE_LINKS, "web", there)

        await found.link("home", "web", ("local-cluster", there))
        every = [(address, ready, ["http", "admin"]) for address, ready, _ in both]
        await links.mirrored(pair.here, every, there)
        await links.mirrored(pair.there, both, there)
        await pair.here.delete(SERVICE_LINKS, "for-b", pair.namespace)
        await found.gone(pair.there)
        await links.mirrored(pair.here, every, there)
        await pair.here.delete(SERVICE_LINKS, "home", pair.namespace)
        await found.gone(pair.here)
        # Its own namespace is not affected.
        await links.mirrored(pair.there, [("10.1.0.1", True, ["http", "admin"])])


async def test_where_a_driver_does_not_lead_to_callers_elsewhere_it_is_said_what_they_can_do(pair: Pair) -> None:
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS, "selector": {"app": "web"}})
    async with elsewhere(pair) as found:
        await pair.copy(SERVICES, "web")
        await found.links.offer(pair.there, "10.2.0.1")
        await shared_by(pair, "Cilium")
        await found.link("home", "web", ("local-cluster", found.namespace))

        def says(link: Raw) -> bool:
            rows = [row for row in link["status"].get("clusters") or () if row["reason"] == "NoPath"]
            told = [row["message"] for row in rows if f"have callers use web.{pair.namespace}" in row["message"]]
            return [("name the driver endpointslices" in each) for each in told] == [True]

        await found.links.once(says, "home")


async def test_callers_elsewhere_need_gateways_for_the_services_own_namespace(pair: Pair) -> None:
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS, "selector": {"app": "web"}})
    async with elsewhere(pair) as found:
        await pair.copy(SERVICES, "web")
        await found.links.offer(pair.there, "10.2.0.1")
        await shared_by(pair, "Gateway")
        # No link allows callers in the Service's own namespace.
        for name in ("web", "home"):
            with contextlib.suppress(NotFound):
                await pair.here.delete(SERVICE_LINKS, name, pair.namespace)
            await found.link(name, "web", ("local-cluster", found.namespace))

        def says(link: Raw) -> bool:
            rows = [row for row in link["status"].get("clusters") or () if row["reason"] == "NoPath"]
            return any("add here without a namespace to spec.to" in row["message"] for row in rows)

        await found.links.once(says, "home")


async def test_one_stays_where_what_it_leads_to_is_not_shared_for_a_moment(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.services.links.other_namespaces.UNSHARED_SECONDS", 20.0)
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS, "selector": {"app": "web"}})
    async with elsewhere(pair) as found:
        await found.link("home", "web", ("local-cluster", found.namespace))
        made = await found.service(pair.here)
        # A replaced Service lacks our annotations.
        await found.links.annotate(**{"global": None})
        await asyncio.sleep(1.0)
        await found.links.annotate(**{"global": "true"})
        await asyncio.sleep(1.0)
        assert (await found.service(pair.here))["metadata"]["uid"] == made["metadata"]["uid"]
        monkeypatch.setattr("agent.services.links.other_namespaces.UNSHARED_SECONDS", 0.5)
        await found.links.annotate(**{"global": None})
        await found.gone(pair.here)


async def test_what_others_have_made_in_a_namespace_is_not_touched(pair: Pair) -> None:
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS})
    async with elsewhere(pair) as found:
        links, there = found.links, found.namespace
        await pair.copy(SERVICES, "web")
        await links.offer(pair.here, "10.1.0.1")
        theirs = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 5432}], "selector": {"app": "db"}}}
        foreign = await pair.here.create(SERVICES, theirs, there)
        await found.link("for-b", "web", (pair.namespace, there))
        message = await _says(links, "for-b", "Conflict")
        assert f"Service {there}/web is there and not made for a ServiceLink" in message
        after = await pair.here.get(SERVICES, "web", there)
        assert after["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]

        await found.link("nowhere", "web", ("local-cluster", "nowhere"))
        assert "no namespace nowhere" in await _says(links, "nowhere", "NamespaceMissing")
        await pair.here.delete(SERVICES, "web", there)
        await found.service(pair.there)
        await links.once(lambda link: condition(link, "Programmed")[0] == "True", "for-b")

        # A Service of the target blocks the copy.
        await pair.here.delete(SERVICE_LINKS, "for-b", pair.namespace)
        await found.gone(pair.there)
        foreign = await pair.there.create(SERVICES, theirs, there)
        await found.link("again", "web", (pair.namespace, there))
        await _says(links, "again", "Conflict")
        after = await pair.there.get(SERVICES, "web", there)
        assert after["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]

        await enable(pair.here, there, None)
        await pair.there.delete(SERVICES, "web", there)
        await links.once(lambda link: names.LABEL_ENABLED in condition(link, "Programmed")[2], "again")


async def _says(links: Links, name: str, reason: str) -> str:
    found = await links.once(lambda link: condition(link, "Ready")[:2] == ("False", reason), name)
    return condition(found, "Ready")[2]
