"""Ten thousand events while streams break at random."""

import asyncio
import contextlib
import random

import pytest

from agent.api.kinds import CONFIGMAPS
from agent.kube.client import Client
from agent.kube.informer import Informer
from tests.kube.relay import Relay
from tests.kube.watching import listed, running, versions
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

INFORMERS = 4
CHANGES = 2_500
WRITERS = 50


async def change(client: Client, namespace: str, writer: int, count: int) -> None:
    """Create, change and delete one writer's few objects, `count` operations in all."""
    chance = random.Random(writer)
    there: set[str] = set()
    for number in range(count):
        name = f"w{writer}-{chance.randrange(4)}"
        if name not in there:
            await client.create_raw(CONFIGMAPS, {"metadata": {"name": name}, "data": {"n": str(number)}}, namespace)
            there.add(name)
        elif chance.random() < 0.3:
            await client.delete(CONFIGMAPS, name, namespace)
            there.remove(name)
        else:
            await client.patch_raw(CONFIGMAPS, name, {"data": {"n": str(number)}}, namespace)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_nothing_is_lost(relay: Relay, relayed: Client, client: Client, namespace: str) -> None:
    informers = [Informer(relayed, CONFIGMAPS, namespace) for _ in range(INFORMERS)]
    chance = random.Random(7)
    broken = 0
    async with contextlib.AsyncExitStack() as stack:
        followers = [await stack.enter_async_context(running(informer)) for informer in informers]
        writers = asyncio.gather(*(change(client, namespace, writer, CHANGES // WRITERS) for writer in range(WRITERS)))
        while not writers.done():
            await asyncio.sleep(chance.uniform(0.05, 0.4))
            broken += relay.break_streams()
        await writers
        truth = await listed(client, CONFIGMAPS, namespace)
        await until(lambda: all(versions(informer) == truth for informer in informers))
        assert all(follower.known == truth for follower in followers)
        assert broken > 10
        assert sum(follower.told for follower in followers) > INFORMERS * CHANGES / 2
