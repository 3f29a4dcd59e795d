"""Promise 12: kubectl cordons, drains and uncordons a virtual node like any node, and respects disruption
budgets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import NODES, PODS, Kind
from agent.api.names import LABEL_TARGET_NAME, LABEL_TARGET_NAMESPACE, virtual_node
from hack.lab.sandbox.errors import SandboxError
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DAEMONSETS, DEPLOYMENTS

Raw = dict[str, Any]

BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
REPLICAS, AVAILABLE = 4, 3
"""Two pods per target are enough; kubectl waits five seconds for each pod whose eviction the budget refuses."""


@pytest_asyncio.fixture(loop_scope="session")
async def nodes(fleet: Fleet, namespace: str) -> AsyncIterator[dict[str, str]]:
    """Names of the virtual nodes by target."""
    yield {target: virtual_node(namespace, target) for target in ("us", "eu")}


async def deploy(fleet: Fleet, namespace: str, *, budget: bool = True) -> None:
    """Deploy to both targets, with a PodDisruptionBudget that allows one unavailable pod if `budget`.

    Wait until pods of earlier tests have been deleted: a target that still has more of them would get no pod.
    """
    await fleet.all_gone()
    await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", REPLICAS), namespace)
    await fleet.running(namespace, "web", REPLICAS)
    if not budget:
        return
    made = {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.name,
        "metadata": {"name": "web"},
        "spec": {"minAvailable": AVAILABLE, "selector": {"matchLabels": {"app": "web"}}},
    }
    await fleet.source.create(BUDGETS, made, namespace)

    async def counted() -> bool:
        status = (await fleet.source.get(BUDGETS, "web", namespace)).get("status", {})
        return bool(status.get("currentHealthy") == REPLICAS and status.get("disruptionsAllowed") == 1)

    await fleet.until("the budget has counted the pods", counted, about=namespace)


async def on(fleet: Fleet, namespace: str, node: str) -> set[str]:
    """Return the UIDs of the Deployment's pods that are bound to a node."""
    pods = await fleet.source.list(PODS, namespace, labels="app=web", fields=f"spec.nodeName={node}")
    return {pod["metadata"]["uid"] for pod in pods}


async def scale(fleet: Fleet, namespace: str, replicas: int) -> None:
    """Scale the Deployment, and wait until all its pods run."""
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, namespace)
    await fleet.running(namespace, "web", replicas)


@contextlib.asynccontextmanager
async def fewest_ready(fleet: Fleet, namespace: str) -> AsyncIterator[list[int]]:
    """Sample the number of ready pods of the Deployment, every 0.05 s."""
    counts: list[int] = []

    async def count() -> None:
        while True:
            pods = await fleet.source.list(PODS, namespace, labels="app=web")
            living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            counts.append(sum(1 for pod in living if condition(pod, "Ready").get("status") == "True"))
            await asyncio.sleep(0.05)

    counting = asyncio.ensure_future(count())
    try:
        yield counts
    finally:
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)


@pytest.mark.full("A variant of the test that drains a virtual node.")
async def test_kubectl_shows_virtual_nodes_as_nodes_of_a_cluster(
    fleet: Fleet, namespace: str, nodes: dict[str, str]
) -> None:
    for node in nodes.values():
        shown = await fleet.kubectl("cd", "get", "node", node, "--no-headers", "-o", "wide")
        name, status, roles, age, version, address, *_ = shown.split()
        assert (name, status, roles) == (node, "Ready", "cluster")
        assert age[0].isdigit()
        assert version.startswith("v1.")
        assert address.count(".") == 3
        described = await fleet.kubectl("cd", "describe", "node", node)
        assert "VirtualNodeReady" in described
        assert "TargetReachable" in described


@pytest.mark.full("A variant of the test that drains a virtual node.")
async def test_a_cordoned_target_keeps_its_pods_and_gets_no_more_until_it_is_uncordoned(
    fleet: Fleet, namespace: str, nodes: dict[str, str]
) -> None:
    await deploy(fleet, namespace, budget=False)
    before = await on(fleet, namespace, nodes["us"])
    assert before
    await fleet.kubectl("cd", "cordon", nodes["us"])
    assert "Ready,SchedulingDisabled" in await fleet.kubectl("cd", "get", "node", nodes["us"])
    await scale(fleet, namespace, 2 * REPLICAS)
    assert await on(fleet, namespace, nodes["us"]) == before
    await fleet.kubectl("cd", "uncordon", nodes["us"])
    # The agent may place pods before it observes the uncordon: add pods until one is bound to the node.
    replicas, now = 2 * REPLICAS, before
    while now == before and replicas < 4 * REPLICAS:
        replicas += 1
        await scale(fleet, namespace, replicas)
        now = await on(fleet, namespace, nodes["us"])
    assert now > before
    fleet.census.check(namespace, at_most=replicas)


async def test_a_drain_moves_all_pods_and_never_breaks_the_budget(
    fleet: Fleet, namespace: str, nodes: dict[str, str]
) -> None:
    await deploy(fleet, namespace)
    stay = await on(fleet, namespace, nodes["eu"])
    assert await on(fleet, namespace, nodes["us"])
    async with fewest_ready(fleet, namespace) as counts:
        told = await fleet.kubectl("cd", "drain", nodes["us"], "--timeout=120s")
    assert f"{nodes['us']} drained" in told
    assert min(counts) >= AVAILABLE
    assert await on(fleet, namespace, nodes["us"]) == set()
    await fleet.running(namespace, "web", REPLICAS)
    assert stay <= await on(fleet, namespace, nodes["eu"])
    delegates = (await fleet.delegates(namespace)).values()
    assert {cluster for cluster, _ in delegates} == {"eu"}
    assert (await fleet.source.get(NODES, nodes["us"]))["spec"]["unschedulable"]
    await fleet.kubectl("cd", "uncordon", nodes["us"])


@pytest.mark.seldom
async def test_a_drain_waits_while_no_replacement_can_become_ready(
    fleet: Fleet, namespace: str, nodes: dict[str, str]
) -> None:
    await deploy(fleet, namespace)
    await fleet.kubectl("cd", "cordon", nodes["eu"])
    here = await on(fleet, namespace, nodes["us"])
    async with fewest_ready(fleet, namespace) as counts:
        with pytest.raises(SandboxError, match="disruption budget"):
            await fleet.kubectl("cd", "drain", nodes["us"], "--timeout=6s")

        async def one_has_gone() -> bool:
            """Check that one pod has moved, and all others are still bound to the node."""
            return len(await on(fleet, namespace, nodes["us"]) & here) == len(here) - 1

        await fleet.until("one has gone, and no other", one_has_gone, about=namespace)
        await fleet.kubectl("cd", "uncordon", nodes["eu"])
        await fleet.kubectl("cd", "drain", nodes["us"], "--timeout=120s")
    assert min(counts) >= AVAILABLE
    assert await on(fleet, namespace, nodes["us"]) == set()
    await fleet.kubectl("cd", "uncordon", nodes["us"])


@pytest.mark.full("A variant of the test that drains a virtual node.")
async def test_pods_of_daemon_sets_are_ignored_only_when_asked(
    fleet: Fleet, namespace: str, nodes: dict[str, str]
) -> None:
    await deploy(fleet, namespace, budget=False)
    spec = manifests.pod_spec(
        tolerations=[{"operator": "Exists"}],
        nodeSelector={LABEL_TARGET_NAMESPACE: namespace, LABEL_TARGET_NAME: "us"},
    )
    daemon = manifests.workload(DAEMONSETS, "daemon", {})
    daemon["spec"]["template"] = {"metadata": {"labels": {"app": "daemon"}}, "spec": spec}
    await fleet.source.create(DAEMONSETS, daemon, namespace)

    async def landed() -> list[Raw]:
        return await fleet.source.list(PODS, namespace, labels="app=daemon", fields=f"spec.nodeName={nodes['us']}")

    await fleet.until("the DaemonSet has a pod on the virtual node", landed, about=namespace)
    with pytest.raises(SandboxError, match="DaemonSet-managed"):
        await fleet.kubectl("cd", "drain", nodes["us"], "--timeout=60s")
    await fleet.kubectl("cd", "drain", nodes["us"], "--ignore-daemonsets", "--timeout=120s")
    assert await on(fleet, namespace, nodes["us"]) == set()
    assert await landed()
    await fleet.kubectl("cd", "uncordon", nodes["us"])
    await fleet.source.delete(DAEMONSETS, "daemon", namespace)


@pytest.mark.seldom
async def test_users_marks_on_a_virtual_node_outlive_restarts_of_the_agent_and_a_lost_link(
    fleet: Fleet, namespace: str, nodes: dict[str, str]
) -> None:
    node = nodes["us"]
    await fleet.kubectl("cd", "label", "node", node, "team=x")
    await fleet.kubectl("cd", "annotate", "node", node, "note=y")
    await fleet.kubectl("cd", "taint", "node", node, "mine=1:NoSchedule")
    await fleet.kubectl("cd", "cordon", node)
    await fleet.sandbox.kill("cd", "agent")
    await fleet.sandbox.start("cd", "agent")
    await fleet.kubectl("cd", "label", "node", node, "kubernetes.io/role=other", "--overwrite")

    async def repaired() -> Raw | None:
        found = json.loads(await fleet.kubectl("cd", "get", "node", node, "-o", "json"))
        return found if found["metadata"]["labels"]["kubernetes.io/role"] == "cluster" else None

    found = await fleet.until("the new agent keeps the node", repaired, about=namespace)
    assert found is not None
    assert found["metadata"]["labels"]["team"] == "x"
    assert found["metadata"]["annotations"]["note"] == "y"
    assert found["spec"]["unschedulable"]
    assert "mine" in {taint["key"] for taint in found["spec"]["taints"]}
