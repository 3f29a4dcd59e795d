"""What the tests of the webhook share."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent.kube.client import Client
from agent.sandbox import Cluster
from tests.webhook.replica import Place

# On Python 3.11 pytest-asyncio asks for the main thread's event loop before its first test; unless none may be made
# then, it makes one that nobody closes, and a later test fails by the warning about it.
asyncio.set_event_loop(None)


@pytest.fixture
async def place(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Place]:
    """A labelled namespace in a real cluster, with names of its own for everything a webhook makes."""
    place = Place(cluster, client, namespace)
    await place.prepare()
    yield place
    await place.clean()
