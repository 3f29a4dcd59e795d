"""Informers that run for the duration of a test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.api.kinds import Kind
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Key, Object


class Follower:
    """Subscriber that rebuilds the state from changes, and checks that each change fits the previous state."""

    def __init__(self, informer: Informer, *, rolls_back: bool = False) -> None:
        self.known: dict[Key, str] = {}
        self.told = 0
        self._rolls_back = rolls_back
        informer.subscribe(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self.told += 1
        key = (new or old).key  # type: ignore[union-attr]
        assert self.known.get(key) == (old.version if old else None)
        if new is None:
            del self.known[key]
        else:
            assert old is None or self._rolls_back or int(new.version) > int(old.version)
            self.known[key] = new.version


@asynccontextmanager
async def running(informer: Informer, follower: Follower | None = None) -> AsyncIterator[Follower]:
    """Run an informer and wait until it has synced."""
    follower = follower or Follower(informer)
    task = asyncio.create_task(informer.run())
    try:
        waits = {task, asyncio.create_task(informer.synced.wait())}
        await asyncio.wait(waits, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert informer.synced.is_set()
        yield follower
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def versions(informer: Informer) -> dict[Key, str]:
    """Return the versions in the store."""
    return {obj.key: obj.version for obj in informer.store}


async def listed(client: Client, kind: Kind, namespace: str) -> dict[Key, str]:
    """Return the versions that the API server lists."""
    found = await client.list(kind, namespace)
    heads = [obj["metadata"] for obj in found]
    return {(head["namespace"], head["name"]): head["resourceVersion"] for head in heads}
