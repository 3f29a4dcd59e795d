"""Promise: what one target or one pod says, and nobody can use, stops nothing else, and is told of where users look."""

import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, CRDS, LEASES, NODES, TARGETS
from agent.sandbox.objects import apply_definitions
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]

DIGITS = "9" * 5000
NONSENSE = {
    "an amount that is none": ({"allocatable": {"cpu": "lots"}}, "allocatable[cpu]: 'lots' is not a quantity"),
    "an amount of thousands of digits": (
        {"metadata": {"annotations": {names.ANNOTATION_NODE_SHAPES: f'[{{"allocatable":{{"cpu":"{DIGITS}"}}}}]'}}},
        "[0].allocatable[cpu]",
    ),
}


@contextlib.asynccontextmanager
async def tells_anything(fleet: Fleet, target: str) -> AsyncIterator[None]:
    """A target whose API server takes any ClusterSummary, and that says nothing of its agent, as one that is hostile.

    In the end its own agent tells of its nodes again.
    """
    client = fleet.clients[target]
    await fleet.sandbox.stop(target, "agent")
    try:
        await client.delete(LEASES, names.LEASE_CONTROLLERS, fleet.home)
        crd = await client.get(CRDS, str(CLUSTER_SUMMARIES))
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for field in ("capacity", "allocatable"):
            schema["properties"][field]["additionalProperties"] = {"x-kubernetes-int-or-string": True}
        await client.patch(CRDS, str(CLUSTER_SUMMARIES), {"spec": {"versions": crd["spec"]["versions"]}})
        yield
    finally:
        await apply_definitions(client)
        await fleet.sandbox.start(target, "agent")


async def says(fleet: Fleet, namespace: str, target: str, status: str, message: str = "") -> None:
    """Wait until a Target is Ready or not, with this in its message."""

    async def told() -> bool:
        ready = condition(await fleet.source.get(TARGETS, target, namespace), "Ready")
        return ready.get("status") == status and message in ready["message"]

    await fleet.until(f"Ready of {target} is {status}", told, about=namespace)


@pytest.mark.usefixtures("processes_only")
async def test_a_target_that_tells_nonsense_takes_no_pods_and_the_others_do(fleet: Fleet, namespace: str) -> None:
    client = fleet.clients["eu"]
    async with tells_anything(fleet, "eu"):
        good = await client.get(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
        for number, (patch, message) in enumerate(NONSENSE.values()):
            # The API server may not have noticed that it takes anything now.
            tell = functools.partial(client.patch, CLUSTER_SUMMARIES, names.SUMMARY_NAME, patch)
            await fleet.until("nonsense is told", tell)
            await says(fleet, namespace, "eu", "False", message)
            ready = condition(await fleet.source.get(TARGETS, "eu", namespace), "Ready")
            assert ready["reason"] == "InvalidSummary"
            assert "delete it, and the agent there writes it anew" in ready["message"]
            node = await fleet.source.get(NODES, names.virtual_node(namespace, "eu"))
            assert node["status"]["allocatable"]["cpu"] == good["allocatable"]["cpu"]
            await fleet.source.create(DEPLOYMENTS, manifests.deployment(f"web-{number}", 3), namespace)
            pods = await fleet.running(namespace, f"web-{number}", 3)
            assert {pod["spec"]["nodeName"] for pod in pods} == {names.virtual_node(namespace, "us")}
            mended: Raw = {"metadata": {"annotations": good["metadata"].get("annotations")}}
            await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, mended | {"allocatable": good["allocatable"]})
            await says(fleet, namespace, "eu", "True")
    await says(fleet, namespace, "eu", "True")
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("all", 4), namespace)
    pods = await fleet.running(namespace, "all", 4)
    assert {pod["spec"]["nodeName"] for pod in pods} == {names.virtual_node(namespace, each) for each in ("us", "eu")}
    await fleet.agree(namespace)
