"""Promise 61: pods run in the clusters that their Placement decides; the agent evaluates the Placement."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    PODS,
    TARGETS,
    Kind,
)
from agent.api.names import SHORT_PREFIX
from agent.api.names.ocm import (
    GLOBAL_SET,
    LABEL_GROUP_INDEX,
    LABEL_PLACEMENT,
    LOCAL_CLUSTER,
    MOVE,
    PLACEMENT,
    WHEN_UNPLACED,
    decision_name,
)
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.ocm import install, object_of

Raw = dict[str, Any]

REPLICAS = 12
CLUSTERS = {"cd": LOCAL_CLUSTER, "us": "us", "eu": "eu"}
"""ManagedCluster by the fleet's cluster."""
MAINTENANCE = {"key": "maintenance", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}


@pytest_asyncio.fixture(loop_scope="session")
async def placing(fleet: Fleet, namespace: str) -> str:
    """Namespace with three targets and a binding to the ManagedClusterSet of all clusters."""
    await install(fleet.source)
    await apply(fleet.source, TARGETS, manifests.ours("Target", "cd", namespace, {"self": True}))
    await fleet.ready(namespace, "cd")

    async def stand() -> bool:
        found = {each["metadata"]["name"] for each in await fleet.source.list(MANAGED_CLUSTERS)}
        told = [each.get("status", {}).get("managedCluster") for each in await fleet.source.list(TARGETS, namespace)]
        return found >= set(CLUSTERS.values()) and all(told)

    await fleet.until("ManagedClusters stand for the targets", stand, about=namespace)
    await create(fleet, namespace, MANAGED_CLUSTER_SET_BINDINGS, GLOBAL_SET, clusterSet=GLOBAL_SET)
    return namespace


async def create(fleet: Fleet, namespace: str, kind: Kind, name: str, **spec: Any) -> None:
    """Create an object of Open Cluster Management."""
    await fleet.source.create(kind, object_of(kind, name, namespace, spec=spec))


async def decided(fleet: Fleet, namespace: str, name: str) -> set[str]:
    """Return the clusters in a Placement's decisions."""
    decisions = await fleet.source.list(PLACEMENT_DECISIONS, namespace, labels=f"{LABEL_PLACEMENT}={name}")
    return {each["clusterName"] for one in decisions for each in one.get("status", {}).get("decisions") or ()}


async def deploy(fleet: Fleet, namespace: str, name: str, replicas: int) -> None:
    """Create a Deployment whose pods follow the Placement of the same name."""
    deployment = manifests.deployment(name, replicas)
    deployment["spec"]["template"]["metadata"]["annotations"][SHORT_PREFIX + PLACEMENT] = name
    await fleet.source.create(DEPLOYMENTS, deployment, namespace)


async def where(fleet: Fleet, namespace: str) -> dict[str, str]:
    """Return the ManagedCluster of each delegate by the UID of its proxy pod."""
    return {uid: CLUSTERS[cluster] for uid, (cluster, _) in (await fleet.delegates(namespace)).items()}


@pytest_asyncio.fixture(loop_scope="session")
async def fourth(fleet: Fleet, placing: str) -> AsyncIterator[str]:
    """ManagedCluster of another owner, last in the order of names. No Target represents it."""
    name = f"zz-{placing}"
    await fleet.source.create(MANAGED_CLUSTERS, object_of(MANAGED_CLUSTERS, name, spec={"hubAcceptsClient": True}))
    yield name
    await fleet.source.delete(MANAGED_CLUSTERS, name)


async def test_a_deployment_runs_where_its_placement_decides_and_what_runs_stays(
    fleet: Fleet, placing: str, fourth: str
) -> None:
    await create(fleet, placing, PLACEMENTS, "any")
    await fleet.until("all four are decided for", lambda: has_all(fleet, placing, fourth), about=placing)
    await fleet.source.delete(PLACEMENTS, "any", placing)
    await create(fleet, placing, PLACEMENTS, "web", numberOfClusters=2)
    await deploy(fleet, placing, "web", REPLICAS)
    await fleet.running(placing, "web", REPLICAS)
    first, before = await decided(fleet, placing, "web"), await where(fleet, placing)
    assert len(first) == 2
    assert set(before.values()) == first

    away = min(first - {LOCAL_CLUSTER})
    await fleet.source.patch(MANAGED_CLUSTERS, away, {"spec": {"taints": [MAINTENANCE]}})
    try:

        async def anew() -> bool:
            found = await decided(fleet, placing, "web")
            return len(found) == 2 and away not in found

        await fleet.until("the Placement decides anew", anew, about=placing)
        second = await decided(fleet, placing, "web")
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": REPLICAS + 6}}, placing)
        await fleet.running(placing, "web", REPLICAS + 6)
        after = await where(fleet, placing)
        assert before.items() <= after.items(), "what is bound stays"
        assert {cluster for uid, cluster in after.items() if uid not in before} <= second
        fleet.census.check(placing, at_most=REPLICAS + 6)
        assert "taints" not in (await fleet.source.get(MANAGED_CLUSTERS, fourth))["spec"], "it is others'"
    finally:
        await fleet.source.patch(MANAGED_CLUSTERS, away, {"spec": {"taints": []}})


async def has_all(fleet: Fleet, namespace: str, fourth: str) -> bool:
    """Return True if the Placement `any` has decided for all clusters."""
    return await decided(fleet, namespace, "any") == {*CLUSTERS.values(), fourth}


@pytest.mark.full("Controller tests cover the same decision.")
async def test_pods_of_a_placement_that_nobody_satisfies_wait_and_say_why(fleet: Fleet, placing: str) -> None:
    selector = {"matchExpressions": [{"key": "planet", "operator": "In", "values": ["mars"]}]}
    predicate = {"requiredClusterSelector": {"labelSelector": selector}}
    await create(fleet, placing, PLACEMENTS, "mars", predicates=[predicate])
    await deploy(fleet, placing, "mars", 2)

    async def told() -> list[str]:
        pods = await fleet.source.list(PODS, placing, labels="app=mars")
        messages = [condition(pod, "PodScheduled").get("message", "") for pod in pods]
        return messages if len(messages) == 2 and all("planet" in message for message in messages) else []

    for message in await fleet.until("pods say why they wait", told, about=placing):
        assert message.startswith("0/3 targets are available: cd: not in Placement mars: ")
    assert await where(fleet, placing) == {}
    await fleet.source.patch(PLACEMENTS, "mars", {"spec": {"predicates": []}}, placing)
    await fleet.running(placing, "mars", 2)


@pytest.mark.full("Controller tests cover the same decision.")
async def test_decisions_are_split_joined_and_put_right(fleet: Fleet, placing: str) -> None:
    await create(fleet, placing, PLACEMENTS, "web")

    async def indexes() -> list[str]:
        decisions = await fleet.source.list(PLACEMENT_DECISIONS, placing, labels=f"{LABEL_PLACEMENT}=web")
        return sorted(each["metadata"]["labels"].get(LABEL_GROUP_INDEX, "") for each in decisions)

    async def are(*wanted: str) -> None:
        async def probe() -> bool:
            return await indexes() == list(wanted)

        await fleet.until(f"there are decisions {wanted}", probe, about=placing)

    await are("0")
    each_alone = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
    await fleet.source.patch(PLACEMENTS, "web", {"spec": {"decisionStrategy": each_alone}}, placing)
    await are("0", "1", "2")
    await fleet.source.patch(PLACEMENTS, "web", {"spec": {"decisionStrategy": None}}, placing)
    await are("0")
    wrong = {"metadata": {"labels": {LABEL_GROUP_INDEX: "7"}}}
    await fleet.source.patch(PLACEMENT_DECISIONS, decision_name("web", 1), wrong, placing)
    await are("0")


@pytest.mark.full("Controller tests cover the same decision.")
async def test_what_runs_moves_where_its_placement_says_so(fleet: Fleet, placing: str) -> None:
    await create(fleet, placing, PLACEMENTS, "api", numberOfClusters=1)
    moving = {"metadata": {"annotations": {WHEN_UNPLACED: MOVE}}}
    await fleet.source.patch(PLACEMENTS, "api", moving, placing)
    await deploy(fleet, placing, "api", 2)
    await fleet.running(placing, "api", 2)
    (away,) = await decided(fleet, placing, "api")
    await fleet.source.patch(MANAGED_CLUSTERS, away, {"spec": {"taints": [MAINTENANCE]}})
    try:

        async def elsewhere() -> bool:
            found, pods = set((await where(fleet, placing)).values()), await fleet.pods(placing, "api")
            return bool(found) and away not in found and len(pods) == 2

        await fleet.until("the pods have left", elsewhere, about=placing, seconds=120)
    finally:
        await fleet.source.patch(MANAGED_CLUSTERS, away, {"spec": {"taints": []}})
