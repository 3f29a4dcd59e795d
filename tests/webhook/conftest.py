"""Fixtures for tests of the webhook."""

from collections.abc import AsyncIterator

import pytest

from agent.kube.client import Client
from hack.lab.sandbox import Cluster
from tests.webhook.replica import Place


@pytest.fixture
async def place(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Place]:
    """Labelled namespace in a real cluster, with unique names for all objects of a webhook."""
    place = Place(cluster, client, namespace)
    await place.prepare()
    yield place
    await place.clean()
