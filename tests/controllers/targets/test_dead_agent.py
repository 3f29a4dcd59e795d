"""Conditions and pods of a target whose API server answers, but whose agent does not work."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CLUSTER_SUMMARIES, EVENTS, LEASES, NODES, PODS
from agent.base.clock import SystemClock
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.runtime.lease import LeaderLease, LeaseTimes
from agent.runtime.supervisor import Supervisor
from agent.scheduler.controller import ProxyScheduler
from agent.targets.summary import SummaryController
from agent.targets.target import TargetController
from agent.targets.virtual_node import VirtualNodeController
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import create, elected, enable, pod_where
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, tear_away
from tests.waiting import until

CONTROLLERS = (TargetController, VirtualNodeController, ProxyScheduler, Chaperon, Feedback)
TAINT = "multicluster/agent-not-ready"
TIMES = LeaseTimes(duration=1.0, renew=0.8, retry=0.1)


@pytest.fixture(autouse=True)
async def _clean(client: Client, namespace: str) -> AsyncIterator[None]:
    await enable(client, namespace)
    yield
    await tear_away(client, namespace)
    with contextlib.suppress(NotFound):
        await client.delete(NODES, names.virtual_node(namespace, "c1"))


@contextlib.asynccontextmanager
async def agent(client: Client, namespace: str) -> AsyncIterator[None]:
    """Hold the leader lease of a working agent; at the end, the agent is killed without releasing it."""
    lease = LeaderLease(client, SystemClock(), namespace, names.LEASE_CONTROLLERS, "one", TIMES)

    async def work() -> None:
        await until(lambda: False, 3600)

    async with Supervisor("target") as supervisor:
        supervisor.spawn("agent", lambda: lease.run(work))
        await until(lambda: lease.leading)
        yield
    body = {"spec": {"holderIdentity": "one", "leaseDurationSeconds": 1}}
    await client.patch(LEASES, names.LEASE_CONTROLLERS, body, namespace)


async def taints(client: Client, namespace: str) -> set[str]:
    node = await client.get(NODES, names.virtual_node(namespace, "c1"))
    return {taint["key"] for taint in node["spec"].get("taints") or ()}


async def has_taint(client: Client, namespace: str, wanted: bool) -> bool:
    return (TAINT in await taints(client, namespace)) == wanted


async def refusal(client: Client, namespace: str, name: str, words: str) -> str | None:
    found = (await client.get(PODS, name, namespace))["status"].get("conditions")
    told = find_condition(found, "PodScheduled") or {}
    return told["message"] if words in told.get("message", "") else None


async def send(deps: Deps, client: Client, namespace: str, name: str) -> None:
    target = deps.targets.get((namespace, "c1"))
    assert target is not None
    await create(client, elected(name, namespace), [target])


async def test_a_target_with_a_dead_agent_says_so_gets_no_new_pods_and_keeps_those_it_has(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS, agent_interval=0.3) as deps:
        async with agent(client, namespace):
            await add(client, namespace, "c1", kubeconfig(cluster))
            await condition(client, namespace, "c1", "AgentReady", "True", "AgentReady")
            await condition(client, namespace, "c1", "Ready", "True")
            await send(deps, client, namespace, "before")
            before = await pod_where(client, namespace, "before", phase="Running", node=True)

        found = await condition(client, namespace, "c1", "AgentReady", "False", "AgentSilent")
        assert "see that its agent runs" in found["message"]
        await condition(client, namespace, "c1", "Reachable", "True")
        await condition(client, namespace, "c1", "Ready", "False", "AgentSilent")
        await until(lambda: has_taint(client, namespace, True))
        await until(lambda: client.list(EVENTS, namespace, fields="reason=AgentSilent"), what="an event says so")
        await send(deps, client, namespace, "after")
        await until(lambda: refusal(client, namespace, "after", "see that its agent runs"))
        assert (await client.get(PODS, "before", namespace))["metadata"]["uid"] == before["metadata"]["uid"]

        async with agent(client, namespace):
            await condition(client, namespace, "c1", "AgentReady", "True")
            await until(lambda: has_taint(client, namespace, False))
            await pod_where(client, namespace, "after", phase="Running", node=True)
        after = await client.get(PODS, "before", namespace)
        assert (after["metadata"]["uid"], after["status"]["phase"]) == (before["metadata"]["uid"], "Running")


async def test_a_restarted_source_says_nothing_new_of_a_dead_agent(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with agent(client, namespace):
        pass
    async with running(cluster, TargetController, VirtualNodeController, agent_interval=0.3):
        await add(client, namespace, "c1", kubeconfig(cluster))
        before = await condition(client, namespace, "c1", "Ready", "False", "AgentSilent")
        await until(lambda: has_taint(client, namespace, True))
    async with running(cluster, TargetController, VirtualNodeController, agent_interval=0.3) as deps:
        await until(lambda: judged(deps, (namespace, "c1")))
        after = await condition(client, namespace, "c1", "Ready", "False", "AgentSilent")
        # Its message names a lease of this cluster, which may be that of another test.
        assert after["lastTransitionTime"] == before["lastTransitionTime"]
        assert await has_taint(client, namespace, True)


async def judged(deps: Deps, key: tuple[str, str]) -> bool:
    target = deps.targets.get(key)
    return target is not None and target.agent is not None


async def test_a_target_with_an_agent_of_another_make_stays_usable(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS, agent_interval=0.3) as deps:
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "AgentReady", "Unknown", "Unknown")
        await condition(client, namespace, "c1", "Ready", "True")
        await send(deps, client, namespace, "pod")
        await pod_where(client, namespace, "pod", phase="Running", node=True)


async def test_a_target_whose_agent_is_too_old_says_which_is_needed(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, SummaryController):
        summary: Any = await until(lambda: client.get(CLUSTER_SUMMARIES, names.SUMMARY_NAME))
        assert summary["metadata"]["annotations"][names.ANNOTATION_AGENT_VERSION].startswith("0.1")
    await tell_version(client, "0.0.9")
    async with running(cluster, TargetController, VirtualNodeController, agent_interval=0.3):
        await add(client, namespace, "c1", kubeconfig(cluster))
        found = await condition(client, namespace, "c1", "AgentReady", "False", "AgentTooOld")
        assert "0.0.9" in found["message"]
        await until(lambda: has_taint(client, namespace, True))
        await tell_version(client, "0.1.7")
        await condition(client, namespace, "c1", "Ready", "True")
        await until(lambda: has_taint(client, namespace, False))


async def tell_version(client: Client, version: str) -> None:
    body = {"metadata": {"annotations": {names.ANNOTATION_AGENT_VERSION: version}}}
    await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, body)
