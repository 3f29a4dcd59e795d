"""Endpoints of a target that is slow to read, or not connected yet."""

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES, TARGETS
from agent.base.metrics import REGISTRY
from agent.clusters.deps import Deps
from agent.drivers.cilium import Cilium
from agent.drivers.driver import LOCAL, Place
from agent.drivers.endpointslices import EndpointSlices
from agent.drivers.sharing import slices_in
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import Invalid, KubeError, ServerError, Unreadable
from agent.model.endpoints import Shelf, mirrors
from agent.services.copies import GlobalServices
from agent.services.endpoints.controller import UNREAD_SECONDS, EndpointsController
from hack.lab.sandbox import Cluster
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, enable
from tests.controllers.servicelinks import Links, by_driver, shared_with_eu
from tests.controllers.starting import running
from tests.e2e import manifests
from tests.kube.relay import Relay
from tests.waiting import empty, until

pytestmark = pytest.mark.cluster


async def test_a_service_is_looked_at_again_while_the_slices_of_its_cluster_are_not_known(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with Relay.started(load(str(cluster.kubeconfig))) as relay, running(cluster) as deps:
        service = {
            "metadata": {
                "name": "web",
                "annotations": {names.ANNOTATION_GLOBAL: "true"},
                "labels": {names.LABEL_PARENT_CLUSTER_UID: deps.cluster_uid},
            },
            "spec": {"ports": [{"port": 80}]},
        }
        await client.create(SERVICES, service, namespace)
        controller = EndpointsController(deps)
        relay.freeze(lambda method, path: path.endswith(ENDPOINT_SLICES.plural))
        async with connected(deps, client, namespace, far=relay.connection) as targets:
            key = (targets["far"].node_name, namespace, "web")
            assert await until(lambda: controller.reconcile(key)) == UNREAD_SECONDS


async def test_endpoints_of_targets_that_are_not_connected_yet_stay(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """After every start the agent reads its own cluster before it connects to its targets."""
    made = manifests.ours("Target", "far", namespace, {"kubeconfigSecret": {"name": "far"}})
    await client.create(TARGETS, made, namespace)
    status = by_driver("True", "EndpointSlices")
    await client.patch(TARGETS, "far", {"status": status}, namespace, sub="status")
    marked = {"name": "web", "annotations": {names.ANNOTATION_GLOBAL: "true"}}
    service = await client.create(SERVICES, {"metadata": marked, "spec": {"ports": [{"port": 80}]}}, namespace)
    theirs = {"metadata": {"name": "web-x"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]}
    shelf = Shelf(namespace, "web", service["metadata"]["uid"], ((names.LABEL_GLOBAL, "true"),))
    (mirror,) = mirrors(theirs, names.origin(namespace, "far"), shelf)
    await client.create(ENDPOINT_SLICES, mirror)
    await enable(client, namespace)
    async with running(cluster) as deps:
        controller = EndpointsController(deps)
        for informer in (deps.local.informer(SERVICES), deps.local.informer(TARGETS), slices_in(deps, None)):
            await informer.synced.wait()
        await deps.namespaces.informer.synced.wait()

        async def left() -> list[str]:
            await controller.reconcile((LOCAL, namespace, "web"))
            return [each["metadata"]["name"] for each in await client.list(ENDPOINT_SLICES, namespace)]

        assert await left() == [mirror["metadata"]["name"]]
        await client.delete(TARGETS, "far", namespace)
        await until(lambda: empty(left()))


async def test_nothing_is_remembered_of_a_service_that_is_gone(pair: Pair) -> None:
    controllers = list[EndpointsController]()

    def endpoints_controller(deps: Deps) -> EndpointsController:
        controllers.append(EndpointsController(deps))
        return controllers[-1]

    def remembered() -> list[object]:
        (controller,) = controllers
        (driver,) = (each for each in controller._drivers if isinstance(each, EndpointSlices))
        return [
            *controller._busy_until,
            *controller._unshared,
            *controller._misread,
            *controller._told,
            *driver._settled,
        ]

    async with shared_with_eu(pair), pair.at_work(endpoints_controller, GlobalServices):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.annotate(affinity="nonsense")
        await links.shared_by("True", "EndpointSlices")
        await pair.copy(SERVICES, "web")
        await links.offer(pair.here, "10.1.0.1")
        await links.mirrored(pair.there, [("10.1.0.1", True, ["http", "admin"])])
        await until(lambda: len(remembered()) >= 4)
        await until(lambda: counted(pair) == 1, what="its mirrors are counted")
        await pair.here.delete(SERVICES, "web", pair.namespace)
        await pair.gone(SERVICES, "web")
        await until(lambda: remembered() == [])
        await until(lambda: counted(pair) is None, what="they are no longer counted")


def counted(pair: Pair) -> float | None:
    """Return the number of mirrored slices in the namespace by the metric; None without a series."""
    return REGISTRY.get_sample_value("flotilla_mirrored_slices", {"namespace": pair.namespace})


async def test_a_driver_that_fails_keeps_no_other_from_its_work(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    failure: KubeError = ServerError(500, "InternalError", "it has no time")

    async def fails(driver: Cilium, place: Place) -> None:
        raise failure

    monkeypatch.setattr(Cilium, "teardown", fails)
    async with shared_with_eu(pair), pair.at_work(EndpointsController, GlobalServices):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.shared_by("True", "EndpointSlices")
        await pair.copy(SERVICES, "web")
        await links.offer(pair.here, "10.1.0.1")
        await links.mirrored(pair.there, [("10.1.0.1", True, ["http", "admin"])])
        failure = Invalid(422, "Invalid", "it is of no use")
        await pair.here.delete(ENDPOINT_SLICES, "web-own", pair.namespace)
        await links.mirrored(pair.there, [])
        await links.offer(pair.there, "10.2.0.1")
        await links.mirrored(pair.here, [("10.2.0.1", True, ["http", "admin"])])
        failure = Unreadable("it makes no sense")
        await links.annotate(**{"global": None})
        await links.mirrored(pair.here, [])
