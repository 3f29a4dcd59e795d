"""Promise 9: two sources with the same cluster name that share a target do not touch each other's objects."""

from collections.abc import AsyncIterator

import pytest_asyncio

from agent.api.kinds import NAMESPACES, PODS, TARGETS
from agent.api.names import virtual_node
from tests.e2e import manifests
from tests.e2e.conftest import AGENT_FLAGS, NewSandbox, fleet_of
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS

SHARED = "shared"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def two_sources(new_sandbox: NewSandbox) -> AsyncIterator[Fleet]:
    """Sources a and b, both called `same`, and their target t, in the same namespace."""
    sandbox = new_sandbox(("a", "b", "t"), "kwok:2", agent_flags=(*AGENT_FLAGS, "--cluster-name=same"))
    async with fleet_of(sandbox) as fleet, fleet.namespace(("t",), source="a", name=SHARED):
        await fleet.clients["b"].patch(
            NAMESPACES, SHARED, {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}}
        )
        await fleet.join(SHARED, "t", source="b")
        yield fleet
        await fleet.leave(SHARED, "b")


async def test_what_one_source_deletes_leaves_the_other_alone(two_sources: Fleet) -> None:
    fleet = two_sources
    for source in ("a", "b"):
        client = fleet.clients[source]
        await client.create(STATEFULSETS, manifests.stateful_set("db", 3), SHARED)
        await client.create(DEPLOYMENTS, manifests.deployment("web", 5), SHARED)
        await client.create(PODS, manifests.pod("lone"), SHARED)
    for source in ("a", "b"):
        for app, count in (("db", 3), ("web", 5), ("lone", 1)):
            await fleet.running(SHARED, app, count, source=source)
    delegates = await fleet.delegates(SHARED)
    assert len(delegates) == 18
    of_b = {pod["metadata"]["uid"] for pod in await fleet.pods(SHARED, source="b")}
    kept = {uid: pod["metadata"]["uid"] for uid, (_, pod) in delegates.items() if uid in of_b}
    assert len(kept) == 9

    a = fleet.clients["a"]
    await a.delete(STATEFULSETS, "db", SHARED)
    await a.delete(DEPLOYMENTS, "web", SHARED)
    await a.delete(PODS, "lone", SHARED)

    async def only_of_b() -> bool:
        left = await fleet.delegates(SHARED)
        return not await a.list(PODS, SHARED) and left.keys() == kept.keys()

    await fleet.until("a's delegates are gone", only_of_b, about=SHARED)
    await fleet.sandbox.restart("a", "agent")
    # A new pod of a's that runs shows that its agent has read everything again, and drawn its conclusions.
    await a.create(PODS, manifests.pod("lone"), SHARED)
    await fleet.running(SHARED, "lone", 1, source="a")
    await a.delete(PODS, "lone", SHARED)
    await fleet.until("a's new delegate is gone", only_of_b, about=SHARED)
    after = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(SHARED)).items()}
    assert after == kept
    assert {pod["metadata"]["uid"] for pod in await fleet.pods(SHARED, source="b")} == of_b
    ended = fleet.census.of(SHARED, fleet.census.gone.values())
    assert not of_b & {delegate.parent_uid for delegate in ended}
    assert len(ended) == 10


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
