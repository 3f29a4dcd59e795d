"""Fixtures for tests of the API client."""

from collections.abc import AsyncIterator

import pytest

from agent.kube import config
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.session import Session
from hack.lab.sandbox import Cluster
from tests.kube.relay import Relay


@pytest.fixture
def connection(cluster: Cluster) -> Connection:
    """Connection to the shared cluster with all permissions."""
    return config.load(str(cluster.kubeconfig))


@pytest.fixture
async def relay(connection: Connection) -> AsyncIterator[Relay]:
    """Relay in front of the shared cluster."""
    async with Relay.started(connection) as relay:
        yield relay


@pytest.fixture
async def relayed(relay: Relay) -> AsyncIterator[Client]:
    """Client that connects through the relay."""
    async with Session(relay.connection, name="relayed", timeout=2.0) as session:
        yield Client(session)
