"""What the tests of the webhook share."""

from collections.abc import AsyncIterator

import pytest

from agent.kube.client import Client
from hack.lab.sandbox import Cluster
from tests.webhook.replica import Place


@pytest.fixture
async def place(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Place]:
    """A labelled namespace in a real cluster, with names of its own for everything a webhook makes."""
    place = Place(cluster, client, namespace)
    await place.prepare()
    yield place
    await place.clean()
