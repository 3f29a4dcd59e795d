"""Helpers for tests of clusters with IPv6: IP families of a fleet, and gateways in its network namespaces."""

import contextlib
import ipaddress
from collections.abc import AsyncIterator, Iterable
from typing import Any

from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, NAMESPACES, SERVICES, SOURCES
from agent.api.names import LABEL_SERVICE_NAME, LABEL_SLICE_MANAGED_BY
from agent.api.names.links import GATEWAY_SERVICE, GATEWAY_SLICE_MANAGER
from agent.api.roles import OPTIONAL_FEATURES
from hack.lab.sandbox.gateways import PORT, GatewayPod
from hack.lab.sandbox.ipfamilies import VERSIONS
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from hack.lab.sandbox.plan import ClusterPlan
from tests.controllers.services.test_gateways import certificate
from tests.e2e import shared
from tests.e2e.fleet import Fleet
from tests.e2e.test_21_drivers import driver

Raw = dict[str, Any]

CLUSTERS = ("cd", "us")


def families(fleet: Fleet) -> list[str]:
    """Return a fleet's IP families as named in Services, the primary one first."""
    return [f"IPv{version}" for version in VERSIONS[plan_of(fleet, "us").family]]


def plan_of(fleet: Fleet, cluster: str) -> ClusterPlan:
    return fleet.sandbox[cluster].runner.cluster


def are_in(addresses: Iterable[str], ranges: Iterable[str]) -> bool:
    """Check that each address is in the range at the same position."""
    pairs = zip(addresses, ranges, strict=True)
    return all(ipaddress.ip_address(address) in ipaddress.ip_network(each) for address, each in pairs)


def ips(pod: Raw) -> list[str]:
    return [each["ip"] for each in pod["status"].get("podIPs") or ()]


async def endpoints(fleet: Fleet, namespace: str, name: str, cluster: str) -> dict[str, list[str]]:
    """Return the addresses of a Service's ready endpoints by address type, sorted."""
    found = dict[str, list[str]]()
    for slice in await shared.slices(fleet, namespace, name, cluster):
        ready = [each for each in slice.get("endpoints") or () if each["conditions"]["ready"]]
        if ready:
            found.setdefault(slice["addressType"], []).extend(each["addresses"][0] for each in ready)
    return {family: sorted(addresses) for family, addresses in found.items()}


@contextlib.asynccontextmanager
async def gateways(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """Run an Envoy in every cluster's network namespace, at the address of the node.

    At the end, delete the Service `web` of the namespace.
    """
    async with contextlib.AsyncExitStack() as stack:
        for cluster in CLUSTERS:
            await stack.enter_async_context(_called_at(fleet, cluster))
        await fleet.clients["us"].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, namespace)
        await driver(fleet, namespace, "us", "gateway")
        for cluster in CLUSTERS:
            client, each = fleet.clients[cluster], fleet.sandbox[cluster]
            uid = (await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
            gateway = GatewayPod(
                uid,
                each.address,
                kubeconfig=str(each.kubeconfig),
                drain_seconds=1,
                namespace=each.runner.cluster.namespace,
            )
            gateway.bundle = type(gateway.bundle)(gateway.bundle.ca, await certificate(client))
            await stack.enter_async_context(gateway)
        yield
        await fleet.source.delete(SERVICES, "web", namespace)

        async def unlinked() -> bool:
            return not any([await each.list(GATEWAY_PEERS, namespace) for each in fleet.clients.values()])

        await fleet.until("no gateway is told of the other cluster", unlinked, about=namespace)


async def gateway_port(fleet: Fleet, namespace: str) -> int:
    """Return the port of `web` at the source's gateway, once EndpointSlices of each family contain the gateway."""
    labels = f"{LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"

    async def probe() -> int:
        made = await fleet.source.list(ENDPOINT_SLICES, namespace, labels=labels)
        ready = {each["addressType"] for each in made if each["endpoints"][0]["conditions"]["ready"]}
        ports = {each["ports"][0]["port"] for each in made}
        return int(ports.pop()) if ready == set(families(fleet)) and len(ports) == 1 else 0

    return await fleet.until("slices of each family lead to the gateway", probe, about=namespace)


@contextlib.asynccontextmanager
async def _called_at(fleet: Fleet, cluster: str) -> AsyncIterator[None]:
    """Create the Service of a cluster's gateways, with the node's addresses as load balancer addresses and as
    endpoints."""
    client, addresses = fleet.clients[cluster], plan_of(fleet, cluster).addresses
    spec = {"type": "LoadBalancer", "ports": [{"name": "gateway", "port": PORT}]}
    await client.create(SERVICES, {"metadata": {"name": GATEWAY_SERVICE}, "spec": spec}, AGENT_NAMESPACE)
    made = [_slice(address, addresses[0]) for address in addresses]
    try:
        status = {"loadBalancer": {"ingress": [{"ip": each} for each in addresses]}}
        await client.patch(SERVICES, GATEWAY_SERVICE, {"status": status}, AGENT_NAMESPACE, sub="status")
        for each in made:
            await client.create(ENDPOINT_SLICES, each, AGENT_NAMESPACE)
        yield
    finally:
        await client.delete(SERVICES, GATEWAY_SERVICE, AGENT_NAMESPACE)
        for each in made:
            await client.delete(ENDPOINT_SLICES, each["metadata"]["name"], AGENT_NAMESPACE)


def _slice(address: str, pod: str) -> Raw:
    version = ipaddress.ip_address(address).version
    metadata = {"name": f"{GATEWAY_SERVICE}-{version}", "labels": {LABEL_SERVICE_NAME: GATEWAY_SERVICE}}
    reference = {"kind": "Pod", "name": pod, "namespace": AGENT_NAMESPACE}
    return {
        "metadata": metadata,
        "addressType": f"IPv{version}",
        "ports": [{"name": "gateway", "port": PORT}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "targetRef": reference}],
    }
