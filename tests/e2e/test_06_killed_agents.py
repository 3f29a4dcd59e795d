"""Promise 6: pods are not lost, duplicated or deleted if an agent is killed at any moment, or if a reply is
lost."""

import asyncio
import json
import random
import secrets

import pytest

from agent.api.kinds import CHAPERONS, NAMESPACES
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.reservations import between

BURST = 60
KILLS = 2


@pytest.mark.parametrize("victim", ["cd", pytest.param("us", marks=pytest.mark.seldom)])
async def test_an_agent_killed_several_times_during_a_burst(fleet: Fleet, namespace: str, victim: str) -> None:
    seed = secrets.randbits(32)
    print(f"moments of the kills: random.Random({seed})")
    moments = random.Random(seed)
    uids = await burst(fleet, namespace)
    for _ in range(KILLS):
        await asyncio.sleep(moments.uniform(0.2, 2.5))
        await fleet.sandbox.kill(victim, "agent")
        await asyncio.sleep(moments.uniform(0.0, 1.0))
        await fleet.sandbox.start(victim, "agent")
        # The next replica waits until the dead one's lease expires. Leave it time to work before it is killed.
        await asyncio.sleep(5.0)
    pods = await fleet.running(namespace, "web", BURST, seconds=120)
    assert {pod["metadata"]["uid"] for pod in pods} == uids, "a proxy pod was deleted"
    await fleet.agree(namespace)
    fleet.census.check(namespace, at_most=BURST)


async def burst(fleet: Fleet, namespace: str) -> set[str]:
    """Create a burst of pods. Once a quarter exists, wait for all and return their UIDs."""
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", BURST), namespace)

    async def all_there() -> set[str]:
        pods = await fleet.pods(namespace, "web")
        return {pod["metadata"]["uid"] for pod in pods} if len(pods) >= BURST // 4 else set()

    await fleet.until("the burst is under way", all_there, about=namespace)
    return await everyone(fleet, namespace)


async def everyone(fleet: Fleet, namespace: str) -> set[str]:
    """Wait until all proxy pods of a burst exist, and return their UIDs."""

    async def complete() -> set[str]:
        uids = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "web")}
        return uids if len(uids) == BURST else set()

    return await fleet.until("all pods of the burst exist", complete, about=namespace)


@pytest.mark.full("Another moment to kill an agent at.")
async def test_a_lost_reply_makes_no_second_delegate(fleet: Fleet) -> None:
    seen: set[str] = set()

    def first_of_each(method: str, path: str, body: bytes) -> bool:
        if method != "POST" or not path.endswith(f"/{CHAPERONS.plural}"):
            return False
        name = json.loads(body)["metadata"]["name"]
        first = name not in seen
        seen.add(name)
        return first

    async with between(fleet, first_of_each) as namespace:
        await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 20), namespace)
        await fleet.running(namespace, "web", 20)
        await fleet.agree(namespace)
        assert len(seen) >= 10, "the test has lost no replies"
        assert {cluster for cluster, _ in (await fleet.delegates(namespace)).values()} == {"us", "eu"}
        fleet.census.check(namespace, at_most=20)


@pytest.mark.full("Another moment to kill an agent at.")
@pytest.mark.parametrize("replicas", [pytest.param(0, marks=pytest.mark.seldom), 10])
async def test_an_agent_killed_while_a_namespace_goes(fleet: Fleet, namespace: str, replicas: int) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", replicas), namespace)
    if replicas:
        await fleet.running(namespace, "web", replicas)
    await fleet.source.delete(NAMESPACES, namespace)
    await fleet.sandbox.kill("cd", "agent")
    # Longer than `--release-after`, after which the agent removes finalizers of a deleted target that is
    # unreachable.
    await asyncio.sleep(5)
    await fleet.sandbox.start("cd", "agent")
    await fleet.gone(NAMESPACES, namespace)
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)
