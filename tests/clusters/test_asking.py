"""What is asked before something is let go of, on a real API server behind a relay."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from agent.api.kinds import CHAPERONS
from agent.clusters.asking import Asking
from agent.clusters.chaperons import Chaperons
from agent.clusters.registry import Targets
from agent.clusters.sending import Sending
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.kube.errors import Unreachable
from agent.sandbox import Cluster
from tests.clusters.test_target import chaperon, registry
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster

UID = "uid-web"


@pytest.fixture
def connection(cluster: Cluster) -> Connection:
    return load(str(cluster.kubeconfig))


@dataclass
class Stage:
    relay: Relay
    targets: Targets
    target: Target
    chaperons: Chaperons
    sending: Sending
    asking: Asking

    def questions(self) -> int:
        return sum(UID in query for query in self.relay.queries)


@asynccontextmanager
async def staged(connection: Connection, client: Client, namespace: str) -> AsyncIterator[Stage]:
    async with Relay.started(connection) as relay, registry(connection) as targets:
        chaperons, sending = Chaperons(targets, "u"), Sending()
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        yield Stage(relay, targets, target, chaperons, sending, Asking(client, "u", chaperons, sending))


async def test_what_a_target_has_is_found_though_its_watch_tells_nothing(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        assert await at.asking.is_free(at.target, namespace, UID)
        at.relay.mute_watches()
        made = await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        assert at.chaperons.of((namespace, "web")) == []
        assert not await at.asking.is_free(at.target, namespace, UID)
        (placed,) = at.chaperons.of((namespace, "web"))
        assert placed.chaperon.uid == made["metadata"]["uid"]
        (left,) = await at.asking.left_in(at.target)
        assert (left.uid, left.phase) == (placed.chaperon.uid, "")


async def test_a_target_that_gives_no_answer_lets_nothing_go(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        at.relay.cut()
        with pytest.raises(Unreachable):
            await at.asking.is_free(at.target, namespace, UID)
        with pytest.raises(Unreachable):
            await at.asking.left_in(at.target)


async def test_nobody_is_asked_for_one_that_was_seen_going_until_another_is_sent(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        await until(lambda: at.chaperons.of((namespace, "web")))
        assert not at.chaperons.has_gone(at.target, UID)
        await client.delete(CHAPERONS, "web-1", namespace)
        await until(lambda: at.chaperons.has_gone(at.target, UID))
        assert await at.asking.is_free(at.target, namespace, UID)
        assert at.questions() == 0
        at.chaperons.expect(at.target, UID)
        assert await at.asking.is_free(at.target, namespace, UID)
        assert at.questions() == 1


async def test_what_was_seen_going_counts_no_more_with_other_credentials(
    connection: Connection, client: Client, namespace: str
) -> None:
    """They may lead to another cluster."""
    async with staged(connection, client, namespace) as at:
        await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        await until(lambda: at.chaperons.of((namespace, "web")))
        await client.delete(CHAPERONS, "web-1", namespace)
        await until(lambda: at.chaperons.has_gone(at.target, UID))
        again = await at.targets.connect((namespace, "eu"), connection, "2")
        assert not at.chaperons.has_gone(again, UID)


async def test_of_one_that_may_be_on_its_way_only_an_answer_of_its_target_tells(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        pod = (namespace, "web")
        with pytest.raises(Unreachable), at.sending.request(at.target, pod, UID):
            raise Unreachable("no answer")
        with at.sending.holding(at.target, pod, UID):
            assert not await at.asking.is_free(at.target, namespace, UID)
            assert at.questions() == 0
        assert await at.asking.is_free(at.target, namespace, UID)
        assert at.questions() == 1
        assert not at.sending.any_to(at.target.key)
