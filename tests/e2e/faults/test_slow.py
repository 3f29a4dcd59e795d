"""If an API server answers two seconds late, pods run, none is lost, and no Target alternates between ready and
not."""

import pytest

from agent.api.kinds import LEASES, TARGETS
from agent.api.names import LEASE_CONTROLLERS, virtual_node
from tests.e2e import manifests
from tests.e2e.faults.agents import USUAL_SETTINGS, agent_by, agent_with, proxy_of
from tests.e2e.faults.holes import by
from tests.e2e.faults.told import Told, told
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

FEW = 8
LATE_SECONDS = 2.0
pytestmark = [pytest.mark.usefixtures("processes_only"), pytest.mark.seldom]


def stayed(heard: Told, namespace: str, *targets: str) -> None:
    """Check that targets were always reachable and their virtual nodes always ready."""
    for target in targets:
        assert heard.of("Target", target, "Reachable") == ["True"]
        assert heard.of("Target", target, "AgentReady") == ["True"]
        assert heard.of("Node", virtual_node(namespace, target), "Ready") == ["True"]


async def test_a_target_that_answers_late_keeps_its_pods_gets_those_for_it_alone_and_is_passed_by_else(
    fleet: Fleet,
) -> None:
    async with (
        # On a busy machine the other target is late, too, but by less than a second.
        agent_with(fleet, "cd", (*USUAL_SETTINGS, "--slow-target=1")),
        proxy_of(fleet, "us") as proxy,
        by(fleet, proxy) as namespace,
    ):
        async with told(fleet, namespace) as heard:
            await fleet.source.create(DEPLOYMENTS, manifests.spread_out("before", FEW), namespace)
            before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "before", FEW)}
            proxy.delay = LATE_SECONDS

            async def is_slow() -> bool:
                return (
                    condition(await fleet.source.get(TARGETS, "us", namespace), "Responsive").get("status") == "False"
                )

            await fleet.until("the Target says that it is slow", is_slow, about=namespace)
            alone = manifests.deployment("alone", FEW, nodeSelector={manifests.REGION: "us"})
            await fleet.source.create(DEPLOYMENTS, alone, namespace)
            await fleet.source.create(DEPLOYMENTS, manifests.deployment("free", FEW), namespace)
            free = await fleet.running(namespace, "free", FEW)
            assert {pod["spec"]["nodeName"] for pod in free} == {virtual_node(namespace, "eu")}
            await fleet.running(namespace, "alone", FEW, seconds=120)
            await fleet.agree(namespace)
            assert {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "before", FEW)} == before
            proxy.delay = 0.0

            async def prompt() -> bool:
                return not await is_slow()

            await fleet.until("the Target says that it is prompt", prompt, about=namespace)
            await fleet.source.create(DEPLOYMENTS, manifests.deployment("after", FEW), namespace)
            after = await fleet.running(namespace, "after", FEW)
            assert virtual_node(namespace, "us") in {pod["spec"]["nodeName"] for pod in after}
            stayed(heard, namespace, "us", "eu")
        fleet.census.check(namespace, at_most=4 * FEW)


async def test_a_source_whose_own_api_server_answers_late_runs_its_pods_and_goes_on_leading(
    fleet: Fleet, namespace: str
) -> None:
    async with proxy_of(fleet, "cd") as proxy, agent_by(fleet, "cd", proxy, *USUAL_SETTINGS):
        await fleet.ready(namespace, "us")
        async with told(fleet, namespace) as heard:
            led = await fleet.source.get(LEASES, LEASE_CONTROLLERS, fleet.home)
            proxy.delay = LATE_SECONDS
            await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", FEW), namespace)
            before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW, seconds=150)}
            await fleet.agree(namespace)
            await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": FEW // 2}}, namespace)
            left = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW // 2, seconds=150)}
            await fleet.agree(namespace)
            assert left < before
            leads = await fleet.source.get(LEASES, LEASE_CONTROLLERS, fleet.home)
            assert leads["spec"]["holderIdentity"] == led["spec"]["holderIdentity"]
            stayed(heard, namespace, "us", "eu")
        proxy.delay = 0.0
    fleet.census.check(namespace, at_most=FEW, may_end=True)
