"""If a leader freezes while pods are created and deleted, another takes over. Once resumed, the old one does no
harm."""

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import PODS
from agent.kube.errors import NotFound
from tests.e2e import manifests
from tests.e2e.debugging import another_agent, second_leads
from tests.e2e.faults.overlaps import none_overlap
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS

FEW, MOST = 6, 14
LEASE_SECONDS = 5.0
pytestmark = [pytest.mark.usefixtures("processes_only"), pytest.mark.seldom]


@contextlib.asynccontextmanager
async def coming_and_going(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """Create and delete pods of a Deployment and of a StatefulSet throughout the block."""

    async def change() -> None:
        for turn in itertools.count():
            replicas = (MOST, FEW)[turn % 2]
            await fleet.source.patch(DEPLOYMENTS, "moving", {"spec": {"replicas": replicas}}, namespace)
            with contextlib.suppress(NotFound):
                await fleet.source.delete(PODS, f"named-{turn % FEW}", namespace)
            await asyncio.sleep(1.5)

    await fleet.source.create(DEPLOYMENTS, manifests.deployment("moving", FEW), namespace)
    await fleet.source.create(STATEFULSETS, manifests.stateful_set("named", FEW), namespace)
    changing = asyncio.ensure_future(change())
    try:
        yield
        assert not changing.done(), changing.result()
    finally:
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)


@contextlib.asynccontextmanager
async def stopped(fleet: Fleet, cluster: str) -> AsyncIterator[None]:
    """Freeze the first agent of a cluster during the block."""
    await fleet.sandbox.kill(cluster, "agent", signal.SIGSTOP)
    try:
        yield
    finally:
        await fleet.sandbox.kill(cluster, "agent", signal.SIGCONT)


@pytest.mark.parametrize("seconds", [20.0, 60.0])
@pytest.mark.parametrize("cluster", ["cd", "us"])
async def test_a_leader_that_stood_still_while_pods_came_and_went_does_no_harm_when_it_wakes_up(
    fleet: Fleet, namespace: str, cluster: str, seconds: float
) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.spread_out("staying", FEW), namespace)
    staying = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "staying", FEW)}
    async with another_agent(fleet, cluster), none_overlap(fleet, namespace):
        async with coming_and_going(fleet, namespace):
            await asyncio.sleep(LEASE_SECONDS)
            async with stopped(fleet, cluster):
                await fleet.until("another one leads", lambda: second_leads(fleet, cluster), about=namespace)
                await asyncio.sleep(seconds - LEASE_SECONDS)
            await asyncio.sleep(LEASE_SECONDS)
            assert await second_leads(fleet, cluster)
        await fleet.source.patch(DEPLOYMENTS, "moving", {"spec": {"replicas": FEW}}, namespace)
        for name in ("moving", "named", "staying"):
            await fleet.running(namespace, name, FEW)
        await fleet.agree(namespace)
    assert {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "staying")} == staying
    ended = {each.parent_uid for each in fleet.census.of(namespace, fleet.census.gone.values())}
    assert not ended & {pod["metadata"]["uid"] for pod in await fleet.pods(namespace)}, "what was wanted was deleted"
    fleet.census.check(namespace, may_end=True)
