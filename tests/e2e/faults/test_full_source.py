"""If the source's etcd is full, the agent logs it and pods wait. Once there is space, each pod runs once."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import CHAPERONS
from agent.kube.errors import ServerError
from hack.lab.sandbox import faults
from tests.e2e import manifests
from tests.e2e.faults.agents import agent_with
from tests.e2e.faults.byhand import scheduler_by_hand
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.waiting import until

FEW, BURST = 6, 24
FULL_SECONDS = 8.0
"""Longer than a leader of these fleets leads without renewing its lease."""
LATE = "late"
"""A scheduler that exists in targets only while the source's etcd is full."""
WORDS = "database space exceeded"
pytestmark = [pytest.mark.usefixtures("processes_only"), pytest.mark.seldom]


@contextlib.asynccontextmanager
async def no_space(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """Exhaust the quota of the source's etcd during the block."""
    cluster = fleet.sandbox["cd"].runner.cluster

    async def is_full() -> bool:
        label = {"metadata": {"labels": {"tried": secrets.token_hex(3)}}}
        try:
            await fleet.source.patch(DEPLOYMENTS, LATE, label, namespace)
        except ServerError as error:
            return WORDS in str(error)
        return False

    async def has_room() -> bool:
        return not await is_full()

    await faults.out_of_space(cluster, alarm=True)
    try:
        await until(is_full, what="the source writes nothing")
        yield
    finally:
        await faults.out_of_space(cluster, alarm=False)
        await until(has_room, what="the source writes again")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("--lease-duration=60", "--lease-renew=50"), id="the leader goes on"),
        pytest.param((), id="the lease is lost"),
    ],
)
async def test_pods_wait_while_the_etcd_of_their_source_is_full_and_each_runs_once(
    fleet: Fleet, namespace: str, flags: tuple[str, ...]
) -> None:
    async with agent_with(fleet, "cd", flags), contextlib.AsyncExitStack() as schedulers:
        await fleet.source.create(DEPLOYMENTS, manifests.deployment(LATE, FEW, schedulerName=LATE), namespace)
        await fleet.until("targets are sent what they cannot schedule", lambda: sent(fleet, namespace, FEW))
        told = fleet.sandbox["cd"].log("agent").stat().st_size
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", BURST), namespace)
        await fleet.until("the burst comes", lambda: sent(fleet, namespace, FEW + 1), about=namespace)
        async with no_space(fleet, namespace):
            for target in ("us", "eu"):
                await schedulers.enter_async_context(scheduler_by_hand(fleet.clients[target], namespace, LATE))
            await fleet.until("targets run them", lambda: run_there(fleet, namespace), about=namespace)
            await asyncio.sleep(FULL_SECONDS)
            waiting = await fleet.pods(namespace, LATE)
            assert not any("nodeName" in pod["spec"] for pod in waiting)
            words = fleet.sandbox["cd"].log("agent").read_bytes()[told:].decode().splitlines()
        await fleet.running(namespace, LATE, FEW)
        await fleet.running(namespace, "web", BURST)
        await fleet.agree(namespace)
    reasons = [line for line in words if WORDS in line]
    names = {pod["metadata"]["name"] for pod in waiting} if flags else {"lease"}
    assert all(any(name in line for line in reasons) for name in names), words
    assert any("lost" in line for line in words) == (not flags)
    living = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace)}
    born = [each.parent_uid for each in fleet.census.of(namespace, fleet.census.born.values())]
    assert sorted(uid for uid in born if uid in living) == sorted(living), "a delegate was made anew"


async def sent(fleet: Fleet, namespace: str, count: int) -> bool:
    """Check that targets have at least `count` PodChaperons."""
    found = [await fleet.clients[target].list(CHAPERONS, namespace) for target in ("us", "eu")]
    return sum(map(len, found)) >= count


async def run_there(fleet: Fleet, namespace: str) -> bool:
    """Check that the delegates that waited for their scheduler run."""
    found = await fleet.delegates(namespace)
    running = {uid for uid, (_, pod) in found.items() if pod["status"].get("phase") == "Running"}
    return {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, LATE)} <= running
