"""Two clusters with IPv6, or with both IP families, on real nodes, with everything that the chart installs.

The API server calls the webhook, the kubelet probes all processes, and agents, gateways and users call each other by
addresses of these families.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES, TARGETS
from agent.api.names import (
    LABEL_SERVICE_NAME,
    LABEL_SLICE_MANAGED_BY,
    NETWORK_DRIVER,
    SCHEDULER_CANDIDATE,
    SHORT_PREFIX,
    virtual_node,
)
from agent.api.names.links import BY_GATEWAY, GATEWAY_SLICE_MANAGER
from tests.e2e import shared
from tests.e2e.debugging import Kubectl, page, until_forwarded
from tests.e2e.families import CLUSTERS, are_in, families, ips, plan_of
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.gateway import realnodes
from tests.gateway.realnodes import FRONTEND
from tests.runtime.test_health import free_port
from tests.sandbox.realnode.conftest import why_not

pytestmark = [mark for mark in realnodes.MARKS if mark.name != "seldom"]

Raw = dict[str, Any]
DUAL = {"ipFamilyPolicy": "PreferDualStack"}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["ipv6", "dual"])
async def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp(request.param)
    async with realnodes.fleet_of_two(folder, "own", ip_family=request.param, reserve=True) as fleet:
        yield fleet


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace with a frontend in both clusters and a Service whose only pod runs in the target."""
    async with realnodes.allowed(fleet) as namespace:
        await fleet.source.create(SERVICES, shared.service("web", **DUAL), namespace)
        await fleet.source.create(DEPLOYMENTS, realnodes.serving("web", 1, "hello", elect=True), namespace)
        await fleet.running(namespace, "web", 1)
        yield namespace


def kubectl(fleet: Fleet, cluster: str, namespace: str) -> Kubectl:
    return Kubectl(fleet.sandbox.plan.programs["kubectl"], fleet.sandbox[cluster].kubeconfig, namespace)


async def answers(fleet: Fleet, namespace: str, cluster: str, addresses: Iterable[str]) -> bool:
    """Return whether each address answers the frontend of a cluster."""
    run = kubectl(fleet, cluster, namespace)
    said = []
    for address in addresses:
        url = f"http://{f'[{address}]' if ':' in address else address}/"
        _, output, _ = await run.run("exec", FRONTEND, "--", "timeout", "5", "wget", "-qO-", url)
        said.append(output)
    return bool(said) and set(said) == {"hello\n"}


async def cluster_ips(fleet: Fleet, namespace: str, cluster: str) -> list[str]:
    spec = (await fleet.clients[cluster].get(SERVICES, "web", namespace))["spec"]
    assert spec["ipFamilies"] == families(fleet)
    assert are_in(spec["clusterIPs"], plan_of(fleet, cluster).service_ranges)
    return list(spec["clusterIPs"])


async def reached(fleet: Fleet, namespace: str, cluster: str) -> None:
    """Wait until the frontend of a cluster reaches the Service at its address of each family."""
    addresses = await cluster_ips(fleet, namespace, cluster)
    await fleet.until(
        f"{addresses} answer in {cluster}",
        lambda: answers(fleet, namespace, cluster, addresses),
        about=namespace,
        seconds=realnodes.PATIENCE_SECONDS,
    )


async def test_the_webhook_elects_a_pod_which_has_its_delegates_addresses(fleet: Fleet, place: str) -> None:
    (pod,) = await fleet.pods(place, "web")
    assert pod["spec"]["nodeName"] == virtual_node(place, "us")
    assert are_in(ips(pod), plan_of(fleet, "us").real_pod_ranges)
    delegate = await realnodes.delegate(fleet, place, "web")
    assert ips(delegate) == ips(pod)
    # The candidate scheduler has called the agent's extender before it bound the delegate.
    assert delegate["spec"]["schedulerName"] == SCHEDULER_CANDIDATE
    node = await fleet.source.get(NODES, virtual_node(place, "us"))
    (address,) = [each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"]
    # The agent runs in a pod, and API servers call its kubelet API there.
    assert are_in([address], plan_of(fleet, "cd").real_pod_ranges[:1])


async def test_callers_of_both_clusters_reach_the_pod_by_the_service(fleet: Fleet, place: str) -> None:
    for cluster in CLUSTERS:
        await reached(fleet, place, cluster)


async def test_users_get_logs_and_run_commands_and_forward_ports(fleet: Fleet, place: str) -> None:
    run = kubectl(fleet, "cd", place)
    (pod,) = await fleet.pods(place, "web")
    name = pod["metadata"]["name"]
    assert await run("exec", name, "--", "cat", "/www/index.html") == "hello\n"
    assert await run("exec", name, "--", "sh", "-c", "echo to the log >/proc/1/fd/1") == ""
    assert await run("logs", name) == "to the log\n"
    port = free_port()
    process = await run.start("port-forward", name, f"{port}:8080")
    async with asyncio.timeout(60):
        await until_forwarded(process, 1)
        assert (await page(port)).endswith(b"hello\n")
    process.terminate()
    await process.communicate()


async def test_gateways_carry_requests_to_the_pod(fleet: Fleet, place: str) -> None:
    annotations = {SHORT_PREFIX + NETWORK_DRIVER: "gateway"}
    await fleet.source.patch(TARGETS, "us", {"metadata": {"annotations": annotations}}, place)
    await realnodes.by_driver(fleet, place, BY_GATEWAY)

    async def by_gateways_alone() -> bool:
        found = await fleet.source.list(ENDPOINT_SLICES, place, labels=f"{LABEL_SERVICE_NAME}=web")
        ready = [each for each in found if any(one["conditions"].get("ready") for one in each["endpoints"] or ())]
        managers = {each["metadata"]["labels"][LABEL_SLICE_MANAGED_BY] for each in ready}
        return managers == {GATEWAY_SLICE_MANAGER} and {each["addressType"] for each in ready} == set(families(fleet))

    await fleet.until(
        "slices of each family lead to gateways", by_gateways_alone, about=place, seconds=realnodes.PATIENCE_SECONDS
    )
    assert not [pod for pod in await fleet.source.list(PODS, place, labels="app=web") if ips(pod)]
    await reached(fleet, place, "cd")
