"""Promise 13: two targets that point to the same cluster do not touch each other's pods."""

import pytest

from agent.api.kinds import TARGETS
from agent.api.names import virtual_node
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS


async def test_two_targets_that_lead_to_one_cluster_leave_each_others_pods_alone(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("eu",)) as namespace:
        await fleet.join(namespace, "eu", name="twin")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 12), namespace)
        pods = await fleet.running(namespace, "web", 12)
        assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, each) for each in ("eu", "twin")}
        await fleet.sandbox.restart("cd", "agent")
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 14}}, namespace)
        await fleet.running(namespace, "web", 14)
        await fleet.agree(namespace)
        fleet.census.check(namespace, at_most=14)


@pytest.mark.full("A variant of the test of two Targets of one cluster.")
async def test_removing_one_of_two_targets_of_a_cluster_leaves_the_others_pods_alone(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("eu",)) as namespace:
        await fleet.join(namespace, "eu", name="twin")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 12), namespace)
        pods = await fleet.running(namespace, "web", 12)
        kept = {pod["metadata"]["uid"] for pod in pods if pod["spec"]["nodeName"] == virtual_node(namespace, "eu")}
        assert kept
        await fleet.source.delete(TARGETS, "twin", namespace)
        await fleet.gone(TARGETS, "twin", namespace)
        after = await fleet.running(namespace, "web", 12)
        assert kept <= {pod["metadata"]["uid"] for pod in after}
