"""A target whose link returns, on a real API server behind a relay: its cache is current once it is ready."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.api.kinds import CHAPERONS
from agent.clusters.health.record import State
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.kube.freshness import lag
from agent.kube.informer import Informer
from hack.lab.sandbox import Cluster
from tests.clusters.test_target import chaperon, registry
from tests.kube.relay import Relay
from tests.kube.watching import running
from tests.waiting import until

pytestmark = pytest.mark.cluster


@pytest.fixture
def connection(cluster: Cluster) -> Connection:
    return load(str(cluster.kubeconfig))


class Lost:
    """A target that was ready when its link was cut, and the objects it held when it became ready again."""

    def __init__(self, relay: Relay, target: Target) -> None:
        self.relay = relay
        self.target = target
        self.held_when_ready: list[set[str]] = []

    def changed(self, target: Target) -> None:
        held = {each.name for each in target.chaperons.store}
        if target.ready and self.held_when_ready[-1:] != [held]:
            self.held_when_ready.append(held)

    def probes(self) -> int:
        """Return the number of requests for chaperons, including probes."""
        return sum(path.endswith(CHAPERONS.plural) for _, path in self.relay.requests)


@asynccontextmanager
async def lost(connection: Connection, client: Client, namespace: str) -> AsyncIterator[Lost]:
    """Delete one chaperon and create another one while the link is cut."""
    for name in ("goes", "stays"):
        await client.create(CHAPERONS, chaperon(name, "web", "u"), namespace)
    async with Relay.started(connection) as relay, registry(connection) as targets:
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        relay.cut()
        await until(lambda: target.record.state is State.UNREACHABLE)
        await client.delete(CHAPERONS, "goes", namespace)
        await client.create(CHAPERONS, chaperon("comes", "web", "u"), namespace)
        found = Lost(relay, target)
        targets.on_change(found.changed)
        yield found


WANT = [{"comes", "stays"}]


async def test_it_is_ready_with_all_that_it_missed(connection: Connection, client: Client, namespace: str) -> None:
    async with lost(connection, client, namespace) as at:
        at.relay.mend()
        await until(lambda: at.target.ready)
    assert at.held_when_ready == WANT


async def test_it_is_not_ready_before_its_watch_was_resumed(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with lost(connection, client, namespace) as at:
        at.relay.freeze_watches()
        at.relay.mend()
        before = at.probes()
        await until(lambda: at.probes() > before + 5)
        assert at.target.record.state is State.CONNECTING
        at.relay.thaw()
        await until(lambda: at.target.ready)
    assert at.held_when_ready == WANT


async def test_a_watch_that_was_resumed_and_tells_nothing_is_not_believed(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with lost(connection, client, namespace) as at:
        at.relay.mute_watches()
        at.relay.mend()
        await until(lambda: at.target.ready)
    assert at.held_when_ready == WANT


async def test_one_that_is_lost_again_before_it_was_believed_is_not_ready(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with lost(connection, client, namespace) as at:
        at.relay.freeze_watches()
        at.relay.mend()
        await until(lambda: at.target.record.state is State.CONNECTING)
        at.relay.cut()
        await until(lambda: at.target.record.state is State.UNREACHABLE)
        assert at.held_when_ready == []
        at.relay.thaw()
        at.relay.mend()
        await until(lambda: at.target.ready)
    assert at.held_when_ready == WANT


async def test_what_an_informer_lacks_is_told_by_the_metadata_of_all(client: Client, namespace: str) -> None:
    for name in ("goes", "stays", "changes"):
        await client.create(CHAPERONS, chaperon(name, "web", "u"), namespace)
    informer = Informer(client, CHAPERONS, namespace)
    async with running(informer):
        assert not await lag(informer)
    await client.delete(CHAPERONS, "goes", namespace)
    await client.create(CHAPERONS, chaperon("comes", "web", "u"), namespace)
    await client.patch(CHAPERONS, "changes", {"metadata": {"annotations": {"a": "b"}}}, namespace)
    found = await lag(informer)
    assert set(found.missing) == {(namespace, "comes"), (namespace, "changes")}
    assert set(found.gone) == {(namespace, "goes")}
    async with running(informer):
        await until(lambda: not found.left(informer))
        assert not await lag(informer)
