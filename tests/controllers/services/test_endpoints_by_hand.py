"""EndpointSlices that users write for a shared Service without a selector, on real API servers."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, ENDPOINT_SLICES, NAMESPACES, SERVICES, Kind
from agent.api.names import links
from agent.clusters.stores import unmarked_slices
from agent.model.endpoints import is_mirror
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.reroute import ServiceRerouteController
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, shared_with_eu
from tests.controllers.services.test_gateways import reconciled
from tests.waiting import at_rest, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
CONTROLLERS = (ServiceRerouteController, GlobalServices, EndpointsController)
ENDPOINTS = Kind("", "v1", "endpoints", "Endpoints")
PORT = {"name": "sql", "port": 5432, "protocol": "TCP"}


async def database(pair: Pair, *, by_namespace: bool = False) -> None:
    """Create a Service without a selector, as users write it: shared by its annotation or by its namespace's."""
    shared = {"multicluster/share-services": "true"} if by_namespace else {}
    await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": {"annotations": shared}})
    metadata = {} if by_namespace else {"annotations": {"multicluster/global": "true"}}
    await pair.create(SERVICES, "db", metadata=metadata, spec={"ports": [{"name": "sql", "port": 5432}]})


async def written(pair: Pair, *addresses: str, name: str = "db-1", service: str = "db") -> None:
    """Write an EndpointSlice as the Kubernetes documentation shows it."""
    labels = {names.LABEL_SERVICE_NAME: service, names.LABEL_SLICE_MANAGED_BY: "staff"}
    slice = {"addressType": "IPv4", "ports": [PORT], "endpoints": [{"addresses": [each]} for each in addresses]}
    await pair.create(ENDPOINT_SLICES, name, metadata={"labels": labels}, **slice)


async def known(pair: Pair, *addresses: str, service: str = "db") -> None:
    """Wait until the target has mirrors with exactly these addresses."""

    async def probe() -> bool:
        labels = f"{names.LABEL_SERVICE_NAME}={service}"
        found = await pair.there.list(ENDPOINT_SLICES, pair.namespace, labels=labels)
        mirrors = [each for each in found if is_mirror(each["metadata"]["labels"])]
        assert all([port["port"] for port in each["ports"]] == [PORT["port"]] for each in mirrors)
        return sorted(each["addresses"][0] for slice in mirrors for each in slice["endpoints"]) == sorted(addresses)

    await until(probe)


async def verdict(pair: Pair, status: str, reason: str, message: str = "") -> None:
    await Links(pair, "").shared_by(status, reason, message)


@pytest.mark.parametrize("by_namespace", [False, True])
async def test_callers_in_targets_reach_endpoints_that_a_user_has_written_in_the_source(
    pair: Pair, by_namespace: bool
) -> None:
    async with shared_with_eu(pair), pair.at_work(*CONTROLLERS):
        await verdict(pair, "True", "EndpointSlices")
        await database(pair, by_namespace=by_namespace)
        copy = await pair.copy(SERVICES, "db")
        assert not copy["spec"].get("selector")
        await written(pair, "192.0.2.10", "192.0.2.11")
        await known(pair, "192.0.2.10", "192.0.2.11")
        # A user changes and deletes them as in one cluster.
        change = {"endpoints": [{"addresses": ["192.0.2.12"]}]}
        await pair.here.patch(ENDPOINT_SLICES, "db-1", change, pair.namespace)
        await known(pair, "192.0.2.12")
        await pair.here.delete(ENDPOINT_SLICES, "db-1", pair.namespace)
        await known(pair)
        # kube-controller-manager writes EndpointSlices for Endpoints, the older kind.
        subsets = [{"addresses": [{"ip": "192.0.2.13"}], "ports": [PORT]}]
        await pair.create(ENDPOINTS, "db", subsets=subsets)
        await known(pair, "192.0.2.13")


@pytest.mark.parametrize(
    ("status", "reason"), [("True", links.BY_GATEWAY), ("False", links.OVERLAP)], ids=["gateways", "no driver"]
)
async def test_written_addresses_are_published_without_flat_networks_but_no_address_of_a_pod(
    pair: Pair, status: str, reason: str
) -> None:
    """Gateways call pods only. An address in the source's pod network belongs to other pods in the target."""
    async with shared_with_eu(pair), pair.at_work(*CONTROLLERS):
        await verdict(pair, status, reason)
        await database(pair)
        await written(pair, "192.0.2.10", "10.1.0.7")
        summary = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
        told = {links.ANNOTATION_NETWORKS: '{"pods":["10.1.0.0/16"]}'}
        await pair.copy(SERVICES, "db")
        # Until the summary is read, the pod network is unknown, and no address is published.
        await at_rest(lambda: reconciled(EndpointsController.name))
        await known(pair)
        await pair.here.create(
            CLUSTER_SUMMARIES, {**summary, "metadata": {"name": names.SUMMARY_NAME, "annotations": told}}
        )
        try:
            await known(pair, "192.0.2.10")
        finally:
            await pair.here.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
        # Without the summary the pod network is unknown, and mirrors stay.
        await written(pair, "10.1.0.8", name="db-2")
        await known(pair, "192.0.2.10")


async def test_slices_of_a_namespace_are_watched_while_it_has_such_a_service(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unmarked_slices, "LINGER_SECONDS", 0.2)
    async with shared_with_eu(pair), pair.at_work(*CONTROLLERS):
        assert pair.deps is not None
        slices = pair.deps.unmarked_slices
        # `shared_with_eu` creates the Service `web` without a selector.
        await until(lambda: slices.of(pair.namespace))
        await pair.here.patch(SERVICES, "web", {"spec": {"selector": {"app": "web"}}}, pair.namespace)
        await until(lambda: slices.of(pair.namespace) is None)
