"""Promise 16: a target whose API server answers but whose agent is dead reports that, and gets no new pods."""

import pytest

from agent.api.kinds import NODES, TARGETS
from agent.api.names import TAINT_AGENT, virtual_node
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS


async def says(fleet: Fleet, namespace: str, status: str) -> None:
    """Wait until AgentReady of the Target us has a status, and its virtual node has the taint only if that is
    False."""

    async def told() -> bool:
        target = await fleet.source.get(TARGETS, "us", namespace)
        node = await fleet.source.get(NODES, virtual_node(namespace, "us"))
        tainted = TAINT_AGENT in {taint["key"] for taint in node["spec"]["taints"]}
        return condition(target, "AgentReady").get("status") == status and tainted == (status == "False")

    await fleet.until(f"AgentReady of us is {status}", told, about=namespace)


async def test_a_dead_agent_gets_no_new_pods_until_it_is_back(fleet: Fleet, namespace: str) -> None:
    await says(fleet, namespace, "True")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("old", 6), namespace)
    old = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "old", 6)}
    await fleet.sandbox.kill("us", "agent")
    try:
        await says(fleet, namespace, "False")
        target = await fleet.source.get(TARGETS, "us", namespace)
        assert condition(target, "Reachable")["status"] == "True"
        assert condition(target, "AgentReady")["reason"] == condition(target, "Ready")["reason"] == "AgentSilent"
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("new", 6), namespace)
        pods = await fleet.running(namespace, "new", 6)
        assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, "eu")}
        assert {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "old", 6)} == old
    finally:
        await fleet.sandbox.start("us", "agent")
    await says(fleet, namespace, "True")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("last", 12), namespace)
    pods = await fleet.running(namespace, "last", 12)
    assert virtual_node(namespace, "us") in {pod["spec"]["nodeName"] for pod in pods}
    await fleet.agree(namespace)
    fleet.census.check(namespace, at_most=24)


@pytest.mark.seldom
async def test_an_agent_that_is_shut_down_is_missed_as_well(fleet: Fleet, namespace: str) -> None:
    await says(fleet, namespace, "True")
    await fleet.sandbox.stop("us", "agent")
    try:
        await says(fleet, namespace, "False")
    finally:
        await fleet.sandbox.start("us", "agent")
    await says(fleet, namespace, "True")
