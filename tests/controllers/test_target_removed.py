"""A Target that is removed just after its cluster was lost, before any probe has said so."""

from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import PODS, TARGETS
from agent.api.names import virtual_node
from agent.controllers.cleanup import CleanupRoom
from agent.controllers.target import TargetRoom
from agent.kube.client import Client
from agent.kube.config import load
from agent.sandbox import Cluster
from tests.controllers.rooms import running
from tests.controllers.targets import add, condition, kubeconfig, tear_away
from tests.controllers.test_target import proxy
from tests.kube.relay import Relay
from tests.waiting import PATIENCE_SECONDS, gone


@pytest.fixture(autouse=True)
async def _clean(client: Client, namespace: str) -> AsyncIterator[None]:
    yield
    await tear_away(client, namespace)


async def test_it_is_asked_at_once_and_lets_go_of_its_pods(cluster: Cluster, client: Client, namespace: str) -> None:
    settings = {"release_after": 1.0, "probe_interval": 2 * PATIENCE_SECONDS}
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, TargetRoom, CleanupRoom, **settings),
    ):
        await add(client, namespace, "c1", kubeconfig(cluster, server=relay.connection.server))
        await condition(client, namespace, "c1", "Ready", "True")
        await client.create(PODS, proxy("there", namespace, "c1", node=virtual_node(namespace, "c1")))
        relay.freeze()
        await client.delete(TARGETS, "c1", namespace)
        await gone(lambda: client.get(PODS, "there", namespace))
