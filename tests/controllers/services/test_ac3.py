"""AC3's networks on a real API server: linked, shared, reported, narrowed, and deleted without leftovers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.crds import ac3_crds
from agent.api.kinds import (
    CRDS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    MULTI_CLUSTER_NETWORKS,
    NAMESPACES,
    SERVICE_LINKS,
    SERVICES,
    TARGETS,
)
from agent.clusters.deps import Deps
from agent.kube.errors import NotFound
from agent.model.ac3 import World, plan
from agent.services.ac3 import AC3NetworkController
from agent.services.copies import GlobalServices
from agent.services.endpoints.controller import EndpointsController
from agent.services.links import ServiceLinksController
from hack.lab.sandbox.objects import apply
from tests.controllers.counting import counting_writes
from tests.controllers.pair import Pair
from tests.controllers.proxies import enable
from tests.controllers.servicelinks import by_driver
from tests.controllers.target_links import target
from tests.kube.relay import Relay
from tests.namespaces import end
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

ON = {"service_links": True, "ac3_networks": True, "discovery_interval": 0.3}
SHARED_FOR = "multicluster/shared-for"


class Networks:
    """A MultiClusterNetwork, and the objects created for it."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def link(self, **fields: Any) -> Raw:
        ends = {"sourceCluster": "local-cluster", "targetCluster": "eu"}
        place = {"sourceNamespace": self.pair.namespace, "targetNamespace": self.pair.namespace}
        return {**ends, **place, **fields}

    async def create(self, *links: Raw, name: str = "hello") -> Raw:
        return await self.pair.create(MULTI_CLUSTER_NETWORKS, name, spec={"links": list(links)})

    async def change(self, *links: Raw, name: str = "hello") -> None:
        body = {"spec": {"links": list(links)}}
        await self.pair.here.patch(MULTI_CLUSTER_NETWORKS, name, body, self.pair.namespace)

    async def once(self, fits: Callable[[Raw], bool], name: str = "hello") -> Raw:
        last: list[Any] = []

        async def probe() -> Raw | None:
            found = await self.pair.here.get(MULTI_CLUSTER_NETWORKS, name, self.pair.namespace)
            last.append(found.get("status"))
            return found if fits(found) else None

        try:
            return await until(probe) or {}
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[-1:]}") from None

    async def says(self, status: str, reason: str, *words: str, type: str = "Ready") -> None:
        def fits(found: Raw) -> bool:
            told = condition(found, type)
            current = told.get("observedGeneration") == found["metadata"]["generation"]
            right = (told["status"], told["reason"]) == (status, reason)
            return current and right and all(each in told["message"] for each in words)

        await self.once(fits)

    async def linked(self, *wanted: Raw) -> list[Raw]:
        """Return the ServiceLinks of networks, once their specs are these."""

        async def probe() -> list[Raw] | None:
            found = await self.pair.here.list(SERVICE_LINKS, self.pair.namespace, labels="multicluster/ac3-network-uid")
            specs = [each["spec"] for each in found]
            return found if sorted(specs, key=str) == sorted(wanted, key=str) else None

        # An empty list is a valid result.
        return await until(probe) or [] if wanted else []

    async def shared(self, service: str, *, shared: bool) -> None:
        async def probe() -> bool:
            found = await self.pair.here.get(SERVICES, service, self.pair.namespace)
            annotations = found["metadata"].get("annotations") or {}
            return (annotations.get("multicluster/global"), SHARED_FOR in annotations) == (
                ("true", True) if shared else (None, False)
            )

        await until(probe)

    async def unlinked(self) -> None:
        async def probe() -> bool:
            return not await self.pair.here.list(
                SERVICE_LINKS, self.pair.namespace, labels="multicluster/ac3-network-uid"
            )

        await until(probe)

    async def end(self, name: str = "hello") -> None:
        await self.pair.here.delete(MULTI_CLUSTER_NETWORKS, name, self.pair.namespace)
        await gone(lambda: self.pair.here.get(MULTI_CLUSTER_NETWORKS, name, self.pair.namespace))


def condition(network: Raw, type: str) -> Raw:
    return dict(find_condition((network.get("status") or {}).get("conditions"), type) or {"status": "", "reason": ""})


def wish(service: str, *ports: int, **fields: Any) -> Raw:
    ends = {"from": ["local-cluster"], "to": [{"cluster": "eu"}]}
    return {"service": service, **ends, **({"ports": list(ports)} if ports else {}), **fields}


@pytest_asyncio.fixture
async def networks(pair: Pair) -> AsyncIterator[Networks]:
    await apply(pair.here, CRDS, *ac3_crds())

    async def served() -> bool:
        try:
            await pair.here.list(MULTI_CLUSTER_NETWORKS, pair.namespace)
        except NotFound:
            return False
        return True

    await until(served)
    ports = [{"name": "http", "port": 8080}, {"name": "admin", "port": 9000}]
    await pair.create(SERVICES, "backend", spec={"ports": ports, "selector": {"app": "hello"}})
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    try:
        yield Networks(pair)
    finally:
        for each in await pair.here.list(MULTI_CLUSTER_NETWORKS, pair.namespace):
            name = each["metadata"]["name"]
            await pair.here.patch(MULTI_CLUSTER_NETWORKS, name, {"metadata": {"finalizers": None}}, pair.namespace)
            if "deletionTimestamp" not in each["metadata"]:
                await pair.here.delete(MULTI_CLUSTER_NETWORKS, name, pair.namespace)
        await pair.here.delete(TARGETS, "eu", pair.namespace)


async def one_is_ready(pair: Pair) -> None:
    """Create a ready local endpoint of the Service `backend`."""
    slice = {
        "metadata": {
            "name": "backend-own",
            "labels": {names.LABEL_SERVICE_NAME: "backend", names.LABEL_GLOBAL: "true"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": True}}],
    }
    await pair.here.create(ENDPOINT_SLICES, slice, pair.namespace)


async def test_a_network_links_shares_tells_and_leaves_nothing_behind(pair: Pair, networks: Networks) -> None:
    controllers = list[AC3NetworkController]()

    def networks_controller(deps: Deps) -> AC3NetworkController:
        controllers.append(AC3NetworkController(deps))
        return controllers[-1]

    made = await networks.create(
        networks.link(services=[{"name": "backend", "port": 8080}]),
        # A faulty link, or one without a Service, does not delay the others.
        networks.link(services=[{"name": "later", "port": 80}]),
        networks.link(targetCluster="mars", services=[{"name": "backend", "port": 8080}]),
        networks.link(sourceNamespace="default", services=[{"name": "kubernetes", "port": 443}]),
    )
    async with pair.at_work(networks_controller, ServiceLinksController, EndpointsController, GlobalServices, **ON):
        found = await networks.linked(
            wish("backend", 8080), wish("later", 80), wish("backend", 8080, to=[{"cluster": "mars"}])
        )
        assert {each["metadata"]["labels"]["multicluster/ac3-network-uid"] for each in found} == {
            made["metadata"]["uid"]
        }
        await networks.shared("backend", shared=True)
        words = ("spec.links[3]", "spec.links[1] later: there is no Service later", "mars")
        await networks.says("False", "NamespaceNotAllowed", *words)
        await networks.says("False", "NamespaceNotAllowed", "ac3no-system", type="Accepted")
        kept = await networks.once(lambda found: bool((found.get("status") or {}).get("previousLinks")))
        assert kept["status"]["previousLinks"] == made["spec"]["links"]
        assert kept["metadata"]["finalizers"] == ["multicluster/links"]
        events = await pair.here.list(EVENTS, pair.namespace, fields="involvedObject.kind=MultiClusterNetwork")
        assert "Warning" in {each["type"] for each in events}

        # Make it work: local endpoints, and a driver.
        one = networks.link(services=[{"name": "backend", "port": 8080}])
        await networks.change(one)
        await networks.linked(wish("backend", 8080))
        await networks.says("False", "NoEndpoints", "no endpoint is ready")
        status = by_driver("True", "EndpointSlices")
        await pair.here.patch(TARGETS, "eu", {"status": status}, pair.namespace, sub="status")
        await one_is_ready(pair)
        await networks.says("True", "Ready")

        # Unchanged status is not written again, and changes and deletions by users are reverted.
        versions = [await _version(networks), (await networks.linked(wish("backend", 8080)))[0]["metadata"]["name"]]
        for _ in range(3):
            await controllers[0].reconcile(("network", pair.namespace, "hello"))
            await controllers[0].reconcile(("service", pair.namespace, "backend"))
            await asyncio.sleep(0.2)
        assert await _version(networks) == versions[0]
        await pair.here.patch(SERVICE_LINKS, versions[1], {"spec": {"ports": None, "driver": "none"}}, pair.namespace)
        await networks.linked(wish("backend", 8080))
        await pair.here.patch(SERVICE_LINKS, versions[1], {"spec": {"service": "other"}}, pair.namespace)
        await networks.linked(wish("backend", 8080))
        await pair.here.delete(SERVICE_LINKS, versions[1], pair.namespace)
        await networks.linked(wish("backend", 8080))
        await networks.says("True", "Ready")

        # Another network with the same Service keeps it shared.
        await networks.create(networks.link(services=[{"name": "backend", "port": 9000}]), name="second")
        await networks.linked(wish("backend", 8080), wish("backend", 9000))
        await networks.end()
        await networks.linked(wish("backend", 9000))
        await networks.shared("backend", shared=True)
        await networks.end("second")
        await networks.unlinked()
        await networks.shared("backend", shared=False)


async def _version(networks: Networks) -> str:
    found = await networks.once(lambda found: True)
    return str(found["metadata"]["resourceVersion"])


async def test_what_is_in_the_way_of_a_link_is_told_and_made_once_it_is_gone(
    pair: Pair, networks: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.services.ac3.controller._AGAIN_SECONDS", 0.5)
    made = await networks.create(networks.link(services=[{"name": "backend", "port": 8080}]))
    wanted = plan(made, World(frozenset((pair.namespace,)), {}, {}), "").links
    ((_, name),) = wanted
    await pair.create(SERVICE_LINKS, name, spec={"service": "other"})
    async with pair.at_work(AC3NetworkController, ServiceLinksController, **ON):
        await networks.says("False", "Conflict", f"ServiceLink {pair.namespace}/{name}", "delete it")
        found = await pair.here.get(SERVICE_LINKS, name, pair.namespace)
        assert found["spec"] == {"service": "other"}
        await pair.here.delete(SERVICE_LINKS, name, pair.namespace)
        await networks.linked(wish("backend", 8080))


async def test_services_of_links_that_are_read_before_their_networks_are_shared(pair: Pair, networks: Networks) -> None:
    controllers = list[AC3NetworkController]()

    def networks_controller(deps: Deps) -> AC3NetworkController:
        controllers.append(AC3NetworkController(deps))
        return controllers[-1]

    await networks.create(networks.link(services=[{"name": "backend", "port": 8080}]))
    async with pair.at_work(networks_controller, ServiceLinksController, **ON):
        await networks.linked(wish("backend", 8080))
        await networks.shared("backend", shared=True)
        controllers[0]._networks.wanted(False)
        # The state that an agent leaves if it ends between two writes.
        away = {"metadata": {"annotations": {"multicluster/global": None, SHARED_FOR: None}}}
        await pair.here.patch(SERVICES, "backend", away, pair.namespace)
        await asyncio.sleep(1.0)
        controllers[0]._networks.wanted(True)
        await networks.shared("backend", shared=True)


async def test_applications_mean_the_services_that_select_their_pods(pair: Pair, networks: Networks) -> None:
    await networks.create(networks.link(applications=["hello-backend"]))
    async with pair.at_work(AC3NetworkController, ServiceLinksController, GlobalServices, **ON):
        await networks.says("False", "NoApplication")
        template = {"metadata": {"labels": {"app": "hello"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "hello"}}, "template": template}
        await pair.create(DEPLOYMENTS, "hello-backend", spec=spec)
        await networks.linked(wish("backend"))
        await networks.shared("backend", shared=True)
        await pair.create(SERVICES, "more", spec={"ports": [{"port": 80}], "selector": {"app": "hello"}})
        await networks.linked(wish("backend"), wish("more"))
        selector = {"spec": {"selector": {"app": "other"}}}
        await pair.here.patch(SERVICES, "more", selector, pair.namespace)
        await networks.linked(wish("backend"))
        await networks.shared("more", shared=False)
        # The user's annotation has precedence.
        unwanted = {"metadata": {"annotations": {"multicluster/global": "false"}}}
        await pair.here.patch(SERVICES, "backend", unwanted, pair.namespace)
        await networks.says("False", "NoService", "not shared")


async def test_what_was_left_while_nobody_looked_is_taken_away(pair: Pair, networks: Networks) -> None:
    await networks.create(networks.link(services=[{"name": "backend", "port": 8080}]))
    async with pair.at_work(AC3NetworkController, ServiceLinksController, GlobalServices, **ON):
        await networks.linked(wish("backend", 8080))
        await networks.shared("backend", shared=True)
    # A user removes the network's finalizer, and writes a link.
    await pair.here.patch(MULTI_CLUSTER_NETWORKS, "hello", {"metadata": {"finalizers": None}}, pair.namespace)
    await pair.here.delete(MULTI_CLUSTER_NETWORKS, "hello", pair.namespace)
    await pair.create(SERVICE_LINKS, "mine", spec={"service": "backend"})
    async with pair.at_work(AC3NetworkController, GlobalServices, **ON):
        await networks.unlinked()
        await networks.shared("backend", shared=False)
        assert (await pair.here.get(SERVICE_LINKS, "mine", pair.namespace))["spec"] == {"service": "backend"}


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_cluster_that_is_cut_off_delays_no_network_of_others(pair: Pair, networks: Networks) -> None:
    other = f"{pair.namespace}-callers"
    await pair.here.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    await enable(pair.here, other)
    await one_is_ready(pair)
    services = [{"name": "backend", "port": 8080}]
    try:
        async with (
            Relay.started(pair.connection) as relay,
            pair.at_work(
                AC3NetworkController,
                ServiceLinksController,
                EndpointsController,
                GlobalServices,
                connection=relay.connection,
                link_namespaces=True,
                **ON,
            ) as eu,
        ):
            # Requests without a response outlast this test.
            eu.cluster.client.session.timeout = 600.0
            # Before the outage is detected, and after.
            for name in ("soon", "later"):
                relay.freeze()
                await networks.create(networks.link(services=services), name=f"dead-{name}")
                within = networks.link(targetCluster="local-cluster", targetNamespace=other, services=services)
                await networks.create(within, name=f"alive-{name}")

                def fits(found: Raw) -> bool:
                    return condition(found, "Ready")["status"] == "True"

                await networks.once(fits, f"alive-{name}")
                await until(lambda: not eu.ready)
            for name in ("dead-soon", "dead-later"):
                await networks.once(lambda found: condition(found, "Ready")["reason"] == "TargetUnreachable", name)
            relay.thaw()
    finally:
        await end(pair.here, other)


async def test_with_ac3s_own_crd_events_tell_what_there_is_no_room_for(
    pair: Pair, networks: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = counting_writes(monkeypatch)
    controllers = list[AC3NetworkController]()

    def networks_controller(deps: Deps) -> AC3NetworkController:
        controllers.append(AC3NetworkController(deps))
        return controllers[-1]

    (crd,) = ac3_crds()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["conditions"]
    await pair.here.patch(CRDS, str(MULTI_CLUSTER_NETWORKS), {"spec": {"versions": crd["spec"]["versions"]}})
    try:
        made = await networks.create(networks.link(services=[{"name": "later", "port": 80}]))

        async def told() -> bool:
            found = await pair.here.list(EVENTS, pair.namespace, fields="involvedObject.kind=MultiClusterNetwork")
            return "NoService" in {each["reason"] for each in found}

        async with pair.at_work(AC3NetworkController, ServiceLinksController, **ON):
            await until(told)
            found = await networks.once(lambda found: bool(found.get("status")))
            assert found["status"] == {"previousLinks": made["spec"]["links"]}
        # A new agent detects that the CRD keeps no conditions, and does not write them again.
        writes.clear()
        async with pair.at_work(networks_controller, ServiceLinksController, **ON):
            await until(lambda: controllers[0]._said)
            assert controllers[0]._crd_has_conditions is False
            assert MULTI_CLUSTER_NETWORKS.name not in {kind for _, kind in writes}
    finally:
        versions = ac3_crds()[0]["spec"]["versions"]
        await pair.here.patch(CRDS, str(MULTI_CLUSTER_NETWORKS), {"spec": {"versions": versions}})
