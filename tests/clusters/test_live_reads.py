"""Live reads before something is released, on a real API server behind a relay."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.stores.inflight_chaperons import InflightChaperons
from agent.clusters.stores.live_reads import LiveReads
from agent.clusters.target import Target
from agent.kube.client import Client, encode
from agent.kube.config import Connection, load
from agent.kube.errors import Unreachable
from agent.kube.store import Object
from hack.lab.sandbox import Cluster
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
    sending: InflightChaperons
    asking: LiveReads

    async def is_free(self) -> bool:
        return await self.asking.is_free(self.target, proxy(self.target.namespace))

    def questions(self) -> int:
        return sum(UID in query for query in self.relay.queries)

    def looks(self) -> list[str]:
        """Return the names of the pods that were read."""
        return [path.rpartition("/")[2] for method, path in self.relay.requests if method == "GET" and "/pods/" in path]


def proxy(namespace: str, name: str = "web", uid: str = UID) -> Object:
    metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": {names.ANNOTATION_CLAIM: "eu"}}
    return Object(PODS, encode({"metadata": metadata}))


@asynccontextmanager
async def staged(connection: Connection, client: Client, namespace: str) -> AsyncIterator[Stage]:
    async with Relay.started(connection) as relay, registry(connection) as targets:
        chaperons, sending = Chaperons(targets, "u"), InflightChaperons()
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        yield Stage(relay, targets, target, chaperons, sending, LiveReads(client, "u", chaperons, sending))


async def test_what_a_target_has_is_found_though_its_watch_tells_nothing(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        assert await at.is_free()
        at.relay.mute_watches()
        made = await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        assert at.chaperons.of((namespace, "web")) == []
        assert not await at.is_free()
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
            await at.is_free()
        with pytest.raises(Unreachable):
            await at.asking.left_in(at.target)


async def test_of_one_that_was_seen_going_only_its_delegate_is_asked_for_until_another_is_sent(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        await until(lambda: at.chaperons.of((namespace, "web")))
        assert at.chaperons.departed(at.target, UID) is None
        await client.delete(CHAPERONS, "web-1", namespace)
        await until(lambda: at.chaperons.departed(at.target, UID))
        assert await at.is_free()
        assert (at.questions(), at.looks()) == (0, ["web-1"])
        at.chaperons.expect(at.target, UID)
        assert await at.is_free()
        assert at.questions() == 1


async def test_nobody_is_asked_for_the_delegate_of_one_that_had_told_that_it_has_ended(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        made = chaperon("web-1", "web", "u")
        await client.create(CHAPERONS, made | {"spec": {"containers": [], "restartPolicy": "Never"}}, namespace)
        await client.patch(CHAPERONS, "web-1", {"status": {"phase": "Succeeded"}}, namespace, sub="status")
        await until(lambda: [each for each in at.chaperons.of((namespace, "web")) if each.chaperon.phase])
        await client.delete(CHAPERONS, "web-1", namespace)
        await until(lambda: at.chaperons.departed(at.target, UID))
        assert await at.is_free()
        assert (at.questions(), at.looks()) == (0, [])


async def test_what_was_seen_going_counts_no_more_with_other_credentials(
    connection: Connection, client: Client, namespace: str
) -> None:
    """The new credentials may point to another cluster."""
    async with staged(connection, client, namespace) as at:
        await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        await until(lambda: at.chaperons.of((namespace, "web")))
        await client.delete(CHAPERONS, "web-1", namespace)
        await until(lambda: at.chaperons.departed(at.target, UID))
        again = await at.targets.connect((namespace, "eu"), connection, "2")
        assert at.chaperons.departed(again, UID) is None


async def test_of_one_that_may_be_on_its_way_only_an_answer_of_its_target_tells(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with staged(connection, client, namespace) as at:
        pod = (namespace, "web")
        with pytest.raises(Unreachable), at.sending.request(at.target, pod, UID):
            raise Unreachable("no answer")
        with at.sending.holding(at.target, pod, UID):
            assert not await at.is_free()
            assert at.questions() == 0
        assert await at.is_free()
        assert at.questions() == 1
        assert not at.sending.any_to(at.target.key)
