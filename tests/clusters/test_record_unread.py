"""A target that answers while one watch cannot be read, on a real API server behind a relay."""

import time

import pytest

from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, CONFIGMAPS
from agent.clusters.health.record import State, unread
from agent.clusters.stores import chaperons
from agent.clusters.target import Probing
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.kube.errors import Forbidden, KubeError, ServerError, Unreachable
from agent.kube.informer import Informer
from agent.kube.session import Session
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.clusters.test_target import chaperon, registry
from tests.kube.relay import Relay
from tests.waiting import until

PROBING = Probing(interval=0.1, timeout=5, slow=5, unread=0.5)


@pytest.fixture
def connection(cluster: SandboxCluster) -> Connection:
    return load(str(cluster.kubeconfig))


@pytest.mark.cluster
async def test_a_target_whose_chaperons_cannot_be_watched_is_not_ready_until_they_can(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with Relay.started(connection) as relay, registry(connection, PROBING) as targets:
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        relay.breaks_watch = lambda path: path.endswith("podchaperons")
        relay.break_streams()
        await until(lambda: target.record.state is State.FAILING)
        assert target.record.message.startswith("podchaperons there cannot be watched: ")
        count = len(relay.requests)
        await until(lambda: len(relay.requests) > count + 10)
        assert target.record.state is State.FAILING
        await client.create(CHAPERONS, chaperon("missed", "web", "u"), namespace)
        relay.breaks_watch = lambda path: False
        await until(lambda: target.ready)
        await until(lambda: target.chaperons.store.get((namespace, "missed")))


@pytest.mark.cluster
async def test_a_chaperon_that_is_found_gone_is_not_deleted_again_while_the_watch_is_silent(
    connection: Connection, client: Client, namespace: str
) -> None:
    probing = Probing(interval=0.1, timeout=5, slow=5)
    async with Relay.started(connection) as relay, registry(connection, probing) as targets:
        await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        index = chaperons.Chaperons(targets, "u")
        await until(lambda: target.ready)
        (placed,) = index.of((namespace, "web"))
        relay.breaks_watch = lambda path: path.endswith("podchaperons")
        relay.break_streams()
        await until(lambda: target.chaperons.error is not None)
        await client.delete(CHAPERONS, "web-1", namespace)
        assert index.of((namespace, "web"))
        await chaperons.delete(target, placed.chaperon.decode())
        assert index.of((namespace, "web")) == []
        assert target.chaperons.store.get(placed.chaperon.key) is None


async def test_requests_to_targets_may_take_as_long_as_those_to_this_cluster() -> None:
    async with registry(Connection("http://127.0.0.1:1")) as targets:
        targets._local.client.session.timeout = 33.0
        target = await targets.connect(("team", "eu"), Connection("http://127.0.0.1:1"), "1")
        assert target.cluster.client.session.timeout == 33.0


@pytest.mark.parametrize(
    ("kind", "error", "seconds", "found"),
    [
        (CHAPERONS, Unreachable("no answer"), 61, True),
        (CHAPERONS, Unreachable("no answer"), 59, False),
        (CHAPERONS, ServerError(500, "", "broken"), 61, True),
        (CONFIGMAPS, Unreachable("no answer"), 61, True),
        (CONFIGMAPS, Forbidden(403, "Forbidden", "no"), 3600, False),
        (CONFIGMAPS, ServerError(500, "", "broken"), 3600, False),
        (CONFIGMAPS, None, 3600, False),
    ],
)
async def test_what_cannot_be_read_for_long_counts_and_what_is_refused_is_a_matter_of_its_feature(
    kind: object, error: KubeError | None, seconds: float, *, found: bool
) -> None:
    async with Session(Connection("http://127.0.0.1:1")) as session:
        informers = {each: Informer(Client(session), each) for each in (CHAPERONS, CLUSTER_SUMMARIES, CONFIGMAPS)}
    now = time.monotonic()
    failing = informers[kind]  # type: ignore[index]
    failing.error, failing.hearing.failing_since = error, now - seconds
    told = unread(informers[CHAPERONS], informers.values(), now, 60)
    assert (told is not None) is found
    if told is not None:
        assert str(told) == f"{failing.kind.plural} there cannot be watched: {error}"
