"""Promise 21: if pods cannot reach each other, every cluster's gateways receive the peers to call and to admit."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    ENDPOINT_SLICES,
    GATEWAY_PEERS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_LINKS,
    SERVICES,
    SOURCES,
    TARGETS,
)
from agent.api.names.links import ANNOTATION_POD_IPS, BY_GATEWAY, GATEWAY_SECRET, GATEWAY_SERVICE, GATEWAY_USABLE
from agent.api.roles import OPTIONAL_FEATURES
from agent.kube.client import Client
from agent.model.gatewaypeer import FIRST_PORT, LAST_PORT
from hack.lab.sandbox.gateways import PORT, GatewayPod
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from tests.controllers.services.test_gateways import certificate, gateway_pod, led, offer, own_address
from tests.e2e import shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.shared import has, known_everywhere
from tests.e2e.test_21_drivers import driver
from tests.gateway.lab import address, ask, echo, serving

Raw = dict[str, Any]

CLUSTERS = ("cd", "us", "eu")


@pytest.fixture
def gateways(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--installed-by") != "sandbox":
        pytest.skip("gateways need Envoy's image")


async def peers(fleet: Fleet, namespace: str) -> dict[str, list[Raw]]:
    return {each: await fleet.clients[each].list(GATEWAY_PEERS, namespace) for each in CLUSTERS}


@pytest.mark.full("Controller tests cover gateways between two clusters.")
@pytest.mark.usefixtures("soon")
async def test_gateways_of_every_cluster_are_told_of_the_others(fleet: Fleet, namespace: str, gateways: None) -> None:
    await shared.web(fleet, namespace, 4)
    await known_everywhere(fleet, namespace, "web", 4)
    await driver(fleet, namespace, "us", "gateway")
    said = await has(fleet, "cd", TARGETS, namespace, "us", lambda found: not shares_by(found, "EndpointSlices"))
    assert "may not list, watch, create, patch, delete gatewaypeers" in condition(said, "ServicesShared")["message"]
    assert "--allow gateway" in condition(said, "ServicesShared")["message"]
    assert condition(said, GATEWAY_USABLE)["reason"] == "Forbidden"
    for cluster in ("us", "eu"):
        await fleet.clients[cluster].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, namespace)
        await driver(fleet, namespace, cluster, "gateway")

    async def chosen() -> bool:
        targets = [await fleet.source.get(TARGETS, each, namespace) for each in ("us", "eu")]
        return all(shares_by(each, BY_GATEWAY) for each in targets)

    await fleet.until("the driver is gateway", chosen, about=namespace)

    async def told() -> bool:
        found = await peers(fleet, namespace)
        own = {each: await own_pods(fleet, namespace, each) for each in CLUSTERS}
        return all(
            len(each) == 2
            and sorted(service["ready"] for peer in each for service in peer["spec"]["services"])
            == sorted(len(own[other]) for other in CLUSTERS if other != cluster)
            and all(condition(peer, "Programmed").get("status") == "True" for peer in each)
            for cluster, each in found.items()
        )

    await fleet.until("each cluster is told of the two others", told, about=namespace)
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}}, namespace)
    await fleet.running(namespace, "web", 6)
    await fleet.until("each cluster is told of more pods in the two others", told, about=namespace)
    own = {each: await own_pods(fleet, namespace, each) for each in CLUSTERS}
    found = await peers(fleet, namespace)
    cas = {peer["spec"]["uid"]: peer["spec"]["ca"] for each in found.values() for peer in each}
    assert len(cas) == len(set(cas.values())) == 3
    for each in found.values():
        ports = [n for peer in each for s in peer["status"]["services"] for port in s["ports"] for n in port["locals"]]
        assert len(ports) == len(set(ports)) >= 2
        assert all(FIRST_PORT <= port <= LAST_PORT for port in ports)
        assert condition(each[0], "Connected")["reason"] == "NoGateway"

    async def hidden() -> bool:
        pods = await fleet.source.list(PODS, namespace)
        return all(
            "podIP" not in pod["status"] and ANNOTATION_POD_IPS in pod["metadata"]["annotations"] for pod in pods
        )

    await fleet.until("proxy pods have no addresses that lead to others", hidden, about=namespace)

    async def own_only() -> bool:
        return all([await shared.ready(fleet, namespace, "web", each) == own[each] for each in CLUSTERS])

    # No gateway runs in this test. Endpoints stay for the half minute that a gateway may take to become ready.
    await fleet.until("each cluster has its own endpoints only", own_only, about=namespace, seconds=90)

    await fleet.source.delete(SERVICES, "web", namespace)
    await fleet.until("nobody is told of it any more", lambda: nothing(fleet, namespace), about=namespace)


@contextlib.asynccontextmanager
async def exposed(client: Client, at: str) -> AsyncIterator[None]:
    """Publish an address of a cluster's gateways, with a load balancer Service and a gateway pod."""
    spec = {"type": "LoadBalancer", "ports": [{"name": "gateway", "port": PORT}]}
    status = {"loadBalancer": {"ingress": [{"ip": at}]}}
    await client.create(SERVICES, {"metadata": {"name": GATEWAY_SERVICE}, "spec": spec}, AGENT_NAMESPACE)
    try:
        await client.patch(SERVICES, GATEWAY_SERVICE, {"status": status}, AGENT_NAMESPACE, sub="status")
        await gateway_pod(client, at)
        yield
    finally:
        for slice in await client.list(
            ENDPOINT_SLICES, AGENT_NAMESPACE, labels=f"{names.LABEL_SERVICE_NAME}={GATEWAY_SERVICE}"
        ):
            await client.delete(ENDPOINT_SLICES, slice["metadata"]["name"], AGENT_NAMESPACE)
        await client.delete(SERVICES, GATEWAY_SERVICE, AGENT_NAMESPACE)


@pytest.mark.full("A variant of the test that connects the gateways of every cluster.")
@pytest.mark.usefixtures("soon")
async def test_two_targets_with_different_drivers_call_each_other_through_gateways(
    fleet: Fleet, namespace: str, gateways: None
) -> None:
    """With real Envoys: cd and `us` share pod addresses, and `eu` is reached through gateways."""
    uids = {each: (await fleet.clients[each].get(NAMESPACES, "kube-system"))["metadata"]["uid"] for each in CLUSTERS}
    at = {"us": address(), "eu": address()}
    await fleet.source.create(
        SERVICES, shared.service("web", {"multicluster/global": "true"}, selector=None), namespace
    )
    async with contextlib.AsyncExitStack() as stack:
        start = stack.enter_async_context
        for cluster, name in (("us", "endpointslices"), ("eu", "gateway")):
            await start(exposed(fleet.clients[cluster], at[cluster]))
            await fleet.clients[cluster].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, namespace)
            await driver(fleet, namespace, cluster, name)
        await has(fleet, "eu", SERVICES, namespace, "web", lambda found: True)
        label = {names.LABEL_PARENT_CLUSTER_UID: uids["cd"]}
        await offer(fleet.clients["eu"], namespace, label, await start(serving(echo, own_address())))
        want = {"cd": {uids["eu"]}, "us": {uids["eu"]}, "eu": {uids["cd"], uids["us"]}}

        async def told() -> bool:
            found = await peers(fleet, namespace)
            return {each: {peer["spec"]["uid"] for peer in of} for each, of in found.items()} == want

        await fleet.until("the targets are told of each other, and this one of eu alone", told, about=namespace)
        for cluster, where in at.items():
            kubeconfig = str(fleet.sandbox[cluster].kubeconfig)
            gateway = GatewayPod(uids[cluster], where, kubeconfig=kubeconfig, drain_seconds=1)
            shown = await certificate(fleet.clients[cluster])
            gateway.bundle = type(gateway.bundle)(gateway.bundle.ca, shown)
            await start(gateway)
        port = await led(fleet.clients["us"], namespace, ready=True)
        assert await ask(at["us"], port, b"hello") == b"hello"
        row = {"cluster": "us", "driver": "gateway", "from": ["eu"], "ready": "True", "reason": "Connected"}

        def says(link: Raw) -> bool:
            return any(row.items() <= each.items() for each in (link.get("status") or {}).get("clusters") or ())

        await has(fleet, "cd", SERVICE_LINKS, namespace, "web", says)

        # A target without a driver is not linked to other targets either.
        await driver(fleet, namespace, "us", "none")
        want = {"cd": {uids["eu"]}, "us": set(), "eu": {uids["cd"]}}
        await fleet.until("the targets are linked no more", told, about=namespace)
        await fleet.source.delete(SERVICES, "web", namespace)
        await fleet.until("nobody is told of it any more", lambda: nothing(fleet, namespace), about=namespace)


@pytest.mark.full("A variant of the test that connects the gateways of every cluster.")
async def test_a_certificate_that_is_damaged_is_made_again(fleet: Fleet, gateways: None) -> None:
    client = fleet.clients["us"]
    await client.patch(SECRETS, GATEWAY_SECRET, {"data": {"tls.crt": None}}, AGENT_NAMESPACE)
    await has(fleet, "us", SECRETS, AGENT_NAMESPACE, GATEWAY_SECRET, lambda found: "tls.crt" in found["data"])


def shares_by(target: Raw, reason: str) -> bool:
    said = condition(target, "ServicesShared")
    return (said.get("status"), said.get("reason")) == ("True", reason)


async def own_pods(fleet: Fleet, namespace: str, cluster: str) -> list[str]:
    """Return the addresses of a cluster's local pods."""
    labels = "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
    found = await fleet.clients[cluster].list(ENDPOINT_SLICES, namespace, labels=labels)
    addresses = [(a, each) for slice in found for each in slice.get("endpoints") or () for a in each["addresses"]]
    return sorted(a for a, each in addresses if not str(each.get("nodeName", "")).startswith("admiralty"))


async def nothing(fleet: Fleet, namespace: str) -> bool:
    return not any((await peers(fleet, namespace)).values())
