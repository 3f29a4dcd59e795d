"""Clusters whose clocks differ by five minutes run each other's pods as usual.

Only the agents' clocks are changed. Control planes are Go programs that read the machine's clock directly.
"""

import contextlib
from collections.abc import Mapping

import pytest

from agent.api.kinds import PODS
from tests.e2e import manifests
from tests.e2e.faults.agents import agent_with
from tests.e2e.faults.told import Told, told
from tests.e2e.fleet import Fleet, condition
from tests.e2e.losses import target_away
from tests.e2e.manifests import DEPLOYMENTS, JOBS

FEW = 8
AHEAD = 300
PATIENT = ("--probe-timeout=5",)
"""Flags of the source's agent, so that a busy machine does not make a target look dead."""
pytestmark = [
    pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier."),
    pytest.mark.usefixtures("processes_only"),
]


@pytest.mark.parametrize(
    "clocks",
    [
        pytest.param({"cd": AHEAD}, id="the source's is ahead"),
        pytest.param({"cd": -AHEAD}, id="the source's is behind", marks=pytest.mark.seldom),
        pytest.param(
            {"cd": 0, "us": AHEAD, "eu": -AHEAD},
            id="one target's is ahead, the other's behind",
            marks=pytest.mark.seldom,
        ),
    ],
)
async def test_clusters_whose_clocks_are_apart_run_each_others_pods(
    fleet: Fleet, namespace: str, clocks: Mapping[str, int]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for cluster, seconds in clocks.items():
            flags = PATIENT if cluster == "cd" else ()
            other = agent_with(fleet, cluster, flags, module="tests.e2e.faults.othertime", first=(str(seconds),))
            await stack.enter_async_context(other)
        heard = await stack.enter_async_context(told(fleet, namespace))
        await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", FEW), namespace)
        before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW)}
        assert {cluster for cluster, _ in (await fleet.delegates(namespace)).values()} == {"us", "eu"}
        await work_is_done_once(fleet, namespace)
        calm(heard)
        async with target_away(fleet, namespace):
            await fleet.source.create(DEPLOYMENTS, manifests.deployment("more", 2), namespace)
            await fleet.running(namespace, "more", 2)
            after = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW)}
            assert before == after, "a pod was replaced"
        await fleet.ready(namespace, "us")
        await fleet.agree(namespace)
        gone = next(iter(before))
        (name,) = (pod["metadata"]["name"] for pod in await fleet.pods(namespace) if pod["metadata"]["uid"] == gone)
        await fleet.source.delete(PODS, name, namespace)
        await fleet.gone(PODS, name, namespace)
        await fleet.running(namespace, "web", FEW)
        await fleet.agree(namespace)
        fleet.census.check(namespace, at_most=FEW + 2 + 2 + 1, may_end=True)


async def work_is_done_once(fleet: Fleet, namespace: str) -> None:
    """Check that a Job of two pods completes with exactly two successes."""
    await fleet.source.create(JOBS, manifests.job("work", 2), namespace)

    async def complete() -> bool:
        return condition(await fleet.source.get(JOBS, "work", namespace), "Complete").get("status") == "True"

    await fleet.until("the Job is complete", complete, about=namespace)
    assert (await fleet.source.get(JOBS, "work", namespace))["status"]["succeeded"] == 2


def calm(heard: Told) -> None:
    """Check that Targets and their agents never became unready after they were first ready."""
    for target in ("us", "eu"):
        for kind in ("Ready", "Reachable", "AgentReady"):
            said = heard.of("Target", target, kind)
            assert "True" not in said or said[said.index("True") :] == ["True"], f"{kind} of {target}: {said}"
