"""Promise 21 on IPv6 and on dual stack, with fake nodes: pods, Services and gateways have addresses of each family."""

import ipaddress
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, PODS, SERVICES
from agent.api.names import virtual_node
from agent.model import hostport
from tests.controllers.services.test_gateways import pod_at
from tests.e2e import manifests, shared
from tests.e2e.families import CLUSTERS, are_in, endpoints, families, gateway_port, gateways, ips, plan_of
from tests.e2e.fleet import Fleet
from tests.e2e.fleets import FleetKeeper
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.shared import has
from tests.gateway.lab import ask, echo, serving

pytestmark = pytest.mark.full("The test needs network namespaces, and clusters with other IP families than all others.")

Raw = dict[str, Any]
GLOBAL = {"multicluster/global": "true"}


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["ipv6", "dual"])
async def fleet(request: pytest.FixtureRequest, processes_only: None, keeper: FleetKeeper) -> AsyncIterator[Fleet]:
    yield await keeper.fleet(request.param)
    await keeper.end()


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    async with fleet.namespace(("us",)) as name:
        yield name


async def test_a_pod_is_elected_and_has_the_addresses_of_its_delegate(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
    await fleet.running(namespace, "web", 2)
    await fleet.agree(namespace)
    plan = plan_of(fleet, "us")
    for pod in await fleet.pods(namespace, "web"):
        assert pod["spec"]["nodeName"] == virtual_node(namespace, "us")
        assert are_in(ips(pod), plan.fake_pod_ranges)
        assert pod["status"]["podIP"] == ips(pod)[0]
        assert pod["status"]["hostIP"] == plan.address
    node = await fleet.source.get(NODES, virtual_node(namespace, "us"))
    assert {"type": "InternalIP", "address": plan_of(fleet, "cd").address} in node["status"]["addresses"]


async def test_every_cluster_has_the_endpoints_of_each_ip_family(fleet: Fleet, namespace: str) -> None:
    """The Service selects a pod of the source, too, so that the target needs EndpointSlices of another cluster."""
    service = shared.service("web", GLOBAL, ipFamilyPolicy="PreferDualStack")
    await fleet.source.create(SERVICES, service, namespace)
    await fleet.source.create(PODS, {**manifests.pod("web", elect=None)}, namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
    await fleet.running(namespace, "web", 3)
    pods = await fleet.pods(namespace, "web")
    wanted = {family: sorted(ips(pod)[place] for pod in pods) for place, family in enumerate(families(fleet))}

    async def known() -> bool:
        return all([await endpoints(fleet, namespace, "web", cluster) == wanted for cluster in CLUSTERS])

    await fleet.until("both clusters have all endpoints", known, about=namespace)
    for cluster in CLUSTERS:
        spec = (await fleet.clients[cluster].get(SERVICES, "web", namespace))["spec"]
        assert spec["ipFamilies"] == families(fleet)
        assert are_in(spec["clusterIPs"], plan_of(fleet, cluster).service_ranges)


async def test_a_copy_of_a_service_has_the_one_ip_family_of_its_original(fleet: Fleet, namespace: str) -> None:
    service = shared.service("web", GLOBAL, ipFamilyPolicy="SingleStack", ipFamilies=["IPv6"])
    await fleet.source.create(SERVICES, service, namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 1), namespace)
    await fleet.running(namespace, "web", 1)
    (pod,) = await fleet.pods(namespace, "web")

    async def known() -> bool:
        return all([await endpoints(fleet, namespace, "web", each) == {"IPv6": ips(pod)[-1:]} for each in CLUSTERS])

    await fleet.until("both clusters have the endpoint", known, about=namespace)
    copy = await fleet.clients["us"].get(SERVICES, "web", namespace)
    assert copy["spec"]["ipFamilies"] == ["IPv6"]


async def test_gateways_carry_a_request_to_an_ipv6_endpoint(fleet: Fleet, namespace: str) -> None:
    """The endpoint is this process, at the machine's address in the clusters' network."""
    uid = (await fleet.source.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    host = str(ipaddress.ip_network(fleet.sandbox.plan.subnets[-1])[1])
    await fleet.source.create(SERVICES, shared.service("web", GLOBAL, selector=None), namespace)
    async with serving(echo, host) as at, gateways(fleet, namespace):
        us = fleet.clients["us"]
        await has(fleet, "us", SERVICES, namespace, "web", lambda found: True)
        await pod_at(us, namespace, "web-own", host)
        slice = {
            "metadata": {
                "name": "web-own",
                "labels": {names.LABEL_SERVICE_NAME: "web", names.LABEL_PARENT_CLUSTER_UID: uid},
            },
            "addressType": "IPv6",
            "ports": [{"name": "http", "port": hostport.split(at)[1]}],
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        }
        await us.create(ENDPOINT_SLICES, slice, namespace)
        port = await gateway_port(fleet, namespace)
        for address in plan_of(fleet, "cd").addresses:

            async def answered(address: str = address) -> bool:
                # The target's Envoy may load new endpoints slightly after the source receives them.
                return await ask(address, port, b"hello") == b"hello"

            await fleet.until(f"the gateways carry a request from {address}", answered, about=namespace)
