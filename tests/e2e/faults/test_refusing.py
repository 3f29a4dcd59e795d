"""If a target refuses pods, they run in another target within a minute; once it recovers, it receives pods
again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, EVENTS, LEASES, PODS, RESOURCE_QUOTAS, TARGETS
from agent.api.names import LEASE_CONTROLLERS, virtual_node
from agent.base.clock import SystemClock, micro_stamp
from agent.kube.errors import Forbidden
from hack.lab.sandbox import faults
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from tests.e2e import manifests
from tests.e2e.faults.byhand import scheduler_by_hand
from tests.e2e.faults.refusals import busy_webhook, dead_webhook, in_force
from tests.e2e.faults.takes import takes_pods_again
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")

Raw = dict[str, Any]
Refusing = Callable[[Fleet, str], AbstractAsyncContextManager[str]]
"""Makes us refuse pods of a namespace; yields a part of its error message."""


@contextlib.asynccontextmanager
async def no_chaperons(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Register an unreachable webhook for PodChaperons."""
    async with dead_webhook(fleet.clients["us"], CHAPERONS, namespace) as name:
        yield name


@contextlib.asynccontextmanager
async def no_pods(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Register an unreachable webhook for pods: PodChaperons are created, but get no pod."""
    async with dead_webhook(fleet.clients["us"], PODS, namespace) as name:
        yield name


@contextlib.asynccontextmanager
async def no_space(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Exhaust the quota of etcd in us."""
    cluster = fleet.sandbox["us"].runner.cluster
    await faults.out_of_space(cluster, alarm=True)
    try:
        yield "database space exceeded"
    finally:
        await faults.out_of_space(cluster, alarm=False)
        await in_force(fleet.clients["us"], CHAPERONS, namespace, None)


@contextlib.asynccontextmanager
async def too_many_requests(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Register a webhook that makes the API server answer 429."""
    async with busy_webhook(fleet.sandbox["us"], fleet.clients["us"], CHAPERONS, namespace) as words:
        yield words


@contextlib.asynccontextmanager
async def not_available(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Register a webhook that makes the API server answer 503."""
    async with busy_webhook(fleet.sandbox["us"], fleet.clients["us"], CHAPERONS, namespace, 503) as words:
        yield words


@contextlib.asynccontextmanager
async def no_quota(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Exhaust a quota of PodChaperons: 403. Unlike quotas of pods, sources do not consider it in scheduling."""
    us, hard = fleet.clients["us"], {f"count/{CHAPERONS.plural}.{CHAPERONS.group}": "0"}
    await us.create(RESOURCE_QUOTAS, {"metadata": {"name": "none"}, "spec": {"hard": hard}}, namespace)
    await in_force(us, CHAPERONS, namespace, Forbidden)
    try:
        yield "exceeded quota: none"
    finally:
        await us.delete(RESOURCE_QUOTAS, "none", namespace)
        await in_force(us, CHAPERONS, namespace, None)


@pytest.mark.parametrize(
    "refusing",
    [
        *(pytest.param(each, marks=pytest.mark.seldom) for each in (no_quota, no_chaperons, no_pods, not_available)),
        *(no_space, too_many_requests),
    ],
)
async def test_pods_of_a_target_that_refuses_them_run_elsewhere_and_it_takes_pods_again_when_it_is_well(
    fleet: Fleet, namespace: str, refusing: Refusing
) -> None:
    async with refusing(fleet, namespace) as words:
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 12), namespace)
        pods = await fleet.running(namespace, "web", 12)
        assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, "eu")}
        events = await fleet.source.list(EVENTS, namespace, fields="reason=FailedScheduling")
        told = [event["message"] for event in events if event["message"].startswith("us: ")]
        assert any(words in message.lower() for message in told), told
    await takes_pods_again(fleet, namespace, virtual_node(namespace, "us"))
    assert not await says(fleet, namespace, "AcceptsPods", "False")
    await fleet.agree(namespace)


async def says(fleet: Fleet, namespace: str, kind: str, status: str) -> bool:
    """Check that a condition of the Target us has this status."""
    return condition(await fleet.source.get(TARGETS, "us", namespace), kind).get("status") == status


@pytest.mark.seldom
async def test_pods_that_no_target_takes_say_why_and_run_when_one_does(fleet: Fleet, namespace: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        words = [
            await stack.enter_async_context(dead_webhook(fleet.clients[target], CHAPERONS, namespace))
            for target in ("us", "eu")
        ]
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 6), namespace)

        async def told() -> bool:
            pods = await fleet.pods(namespace, "web")
            found = [condition(pod, "PodScheduled").get("message", "") for pod in pods]
            return len(found) == 6 and all(each in message for each in words for message in found)

        await fleet.until("every pod says why", told, about=namespace)

        async def target_says() -> bool:
            return await says(fleet, namespace, "AcceptsPods", "False")

        await fleet.until("the Target says so, too", target_says, about=namespace)
    await fleet.running(namespace, "web", 6)


@contextlib.asynccontextmanager
async def lease_renewed(fleet: Fleet, cluster: str) -> AsyncIterator[None]:
    """Renew the lease of a dead agent by hand, so that it seems alive."""

    async def renew() -> None:
        while True:
            body = {"spec": {"renewTime": micro_stamp(SystemClock().now())}}
            await fleet.clients[cluster].patch(LEASES, LEASE_CONTROLLERS, body, AGENT_NAMESPACE)
            await asyncio.sleep(0.5)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


@pytest.mark.seldom
async def test_chaperons_that_no_agent_takes_up_go_to_another_target(fleet: Fleet, namespace: str) -> None:
    await fleet.sandbox.kill("us", "agent")
    try:
        async with lease_renewed(fleet, "us"):
            await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", 8), namespace)
            await fleet.until(
                "us is sent pods", lambda: fleet.clients["us"].list(CHAPERONS, namespace), about=namespace
            )
            pods = await fleet.running(namespace, "web", 8, seconds=150)
        assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, "eu")}
        events = await fleet.source.list(EVENTS, namespace, fields="reason=FailedScheduling")
        assert any("us: nobody there has done anything about its PodChaperon" in event["message"] for event in events)
    finally:
        await fleet.sandbox.start("us", "agent")
    await takes_pods_again(fleet, namespace, virtual_node(namespace, "us"))
    await fleet.agree(namespace)


@pytest.mark.seldom
async def test_pods_whose_scheduler_is_in_one_target_only_get_there(fleet: Fleet, namespace: str) -> None:
    async with scheduler_by_hand(fleet.clients["eu"], namespace, "odd"):
        made = manifests.deployment("web", 6, schedulerName="odd")
        await fleet.source.create(DEPLOYMENTS, made, namespace)
        pods = await fleet.running(namespace, "web", 6, seconds=150)
    assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, "eu")}
