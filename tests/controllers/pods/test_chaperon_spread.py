"""Delegates with hard spread constraints, in a target that has virtual nodes itself."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, NODES, PODS
from agent.kube.client import Client
from agent.pods.chaperon.controller import Chaperon
from hack.lab.sandbox import Cluster
from tests.controllers.pods.test_chaperon import chaperon, status
from tests.controllers.proxies import PROVIDER
from tests.controllers.starting import running
from tests.e2e import manifests
from tests.waiting import until

pytestmark = pytest.mark.cluster


@contextlib.asynccontextmanager
async def virtual_node(client: Client, name: str) -> AsyncIterator[None]:
    """Create a virtual node in the region of another cluster."""
    labels = {names.PROVIDER_KEY: names.PROVIDER_VALUE, manifests.REGION: "elsewhere"}
    await client.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [PROVIDER]}})
    try:
        yield
    finally:
        await client.delete(NODES, name)


def spread(name: str, **constraint: Any) -> dict[str, Any]:
    """Return a chaperon whose pod may run only if no region gets two pods more than another."""
    made = chaperon(name, topologySpreadConstraints=[manifests.spread("even", manifests.REGION, "DoNotSchedule")])
    made["spec"]["topologySpreadConstraints"][0] |= constraint
    made["metadata"]["labels"]["app"] = "even"
    return made


async def test_virtual_nodes_of_the_target_are_no_domains_for_delegates(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with virtual_node(client, f"{namespace}-virtual"), running(cluster, Chaperon):
        for name in ("one", "two", "three"):
            await client.create(CHAPERONS, spread(name), namespace)
        for name in ("one", "two", "three"):
            await status(client, namespace, name, phase="Running")


async def test_constraints_stay_as_written_if_they_choose_or_the_target_has_no_virtual_node(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, spread("no-virtual-node"), namespace)
        await status(client, namespace, "no-virtual-node", phase="Running")
        (constraint,) = (await client.get(PODS, "no-virtual-node", namespace))["spec"]["topologySpreadConstraints"]
        assert "nodeTaintsPolicy" not in constraint
    async with virtual_node(client, f"{namespace}-virtual"), running(cluster, Chaperon):
        await client.create(CHAPERONS, spread("chooses", nodeTaintsPolicy="Ignore"), namespace)
        pod = await until(lambda: client.get(PODS, "chooses", namespace))
        (constraint,) = pod["spec"]["topologySpreadConstraints"]
        assert constraint["nodeTaintsPolicy"] == "Ignore"
