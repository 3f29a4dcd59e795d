"""A target as a state machine, on a real API server behind a relay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.health.record import classify
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import PROBE, Probing, State, Target
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth, load
from agent.kube.errors import Forbidden, InvalidConfig, KubeError, NotFound, ServerError, Unauthorized, Unreachable
from agent.runtime.supervisor import Supervisor
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.kube.relay import Relay, trusting
from tests.waiting import until

PROBING = Probing(interval=0.1, timeout=2, failures=2)


@asynccontextmanager
async def registry(connection: Connection, probing: Probing = PROBING) -> AsyncIterator[Targets]:
    local = Cluster(connection, "local")
    async with Supervisor("test") as supervisor:
        targets = Targets(local, SystemClock(), probing, supervisor)
        try:
            yield targets
        finally:
            await targets.close()
            await local.close()


@pytest.fixture
def connection(cluster: SandboxCluster) -> Connection:
    return load(str(cluster.kubeconfig))


def chaperon(name: str, parent: str, cluster_uid: str) -> dict[str, object]:
    labels = {names.LABEL_PARENT_UID: f"uid-{parent}", names.LABEL_PARENT_CLUSTER_UID: cluster_uid}
    annotations = {names.ANNOTATION_PARENT_NAME: parent}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    head = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}
    return head | {"metadata": metadata, "spec": {"containers": [{"name": "m", "image": "busybox"}]}}


@pytest.mark.cluster
async def test_a_target_is_lost_after_failures_in_a_row_and_comes_back_with_all_it_missed(
    connection: Connection, client: Client, namespace: str
) -> None:
    states: list[State] = []
    async with Relay.started(connection) as relay, registry(connection) as targets:
        targets.on_change(lambda target: states.append(target.record.state))
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        assert target.chaperons.synced.is_set()
        relay.cut()
        await until(lambda: target.record.state is State.UNREACHABLE)
        assert target.record.failures >= PROBING.failures
        await client.create(CHAPERONS, chaperon("missed", "web", "u"), namespace)
        relay.mend()
        await until(lambda: target.ready)
        await until(lambda: target.chaperons.store.get((namespace, "missed")))
    assert states[0] is State.CONNECTING
    assert states.index(State.READY) < states.index(State.UNREACHABLE)


@pytest.mark.cluster
async def test_one_lost_probe_changes_nothing(connection: Connection, namespace: str) -> None:
    lost: list[str] = []

    def lose_one(method: str, path: str) -> bool:
        if not lost and path.endswith("podchaperons"):
            lost.append(path)
            return True
        return False

    states: list[State] = []
    async with Relay.started(connection) as relay, registry(connection) as targets:
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        targets.on_change(lambda target: states.append(target.record.state))
        relay.lose_reply = lose_one
        target.probe_now()
        await until(lambda: lost)
        count = len(relay.requests)
        await until(lambda: len(relay.requests) > count + 3)
        assert target.ready
    assert set(states) <= {State.READY}


@pytest.mark.cluster
async def test_a_probe_is_as_cheap_where_there_are_many_chaperons(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with registry(connection) as targets:
        target = await targets.connect((namespace, "eu"), connection, "1")
        await until(lambda: target.ready)
        made = (client.create(CHAPERONS, chaperon(f"c{number}", "web", "u"), namespace) for number in range(50))
        await asyncio.gather(*made)
        await until(lambda: len(target.chaperons.store) == 50)
        for path in (CHAPERONS.path(namespace), CHAPERONS.path(None)):
            answer = await client.session.request("GET", path, params=PROBE, resource=CHAPERONS.plural)
            assert len(answer) < 300


@pytest.mark.cluster
async def test_a_target_that_answers_late_is_slow_and_prompt_again_afterwards(
    connection: Connection, namespace: str
) -> None:
    probing = Probing(interval=0.1, timeout=5, slow=0.7)
    async with Relay.started(connection) as relay, registry(connection, probing) as targets:
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        assert not target.slow
        told: list[bool] = []
        targets.on_latency(lambda target: told.append(target.slow))
        relay.delay(1)
        await until(lambda: target.slow)
        assert target.ready
        relay.delay(0)
        await until(lambda: not target.slow)
        assert told == [True, False]


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.cluster
async def test_that_a_slow_target_is_prompt_again_is_found_out_before_the_next_probe_of_a_prompt_one(
    connection: Connection, namespace: str
) -> None:
    probing = Probing(interval=60, timeout=5, agent_interval=3600, slow=0.7)
    async with Relay.started(connection) as relay, registry(connection, probing) as targets:
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        relay.delay(2)
        target.probe_now()
        await until(lambda: target.slow)
        relay.delay(0)
        await until(lambda: not target.slow)


@pytest.mark.cluster
async def test_a_wrong_token_and_a_missing_right_have_states_of_their_own_and_disturb_no_other(
    connection: Connection, namespace: str
) -> None:
    tls = trusting(connection)
    async with registry(connection) as targets:
        wrong = Connection(connection.server, tls, StaticAuth("Bearer wrong"))
        refused = await targets.connect((namespace, "refused"), wrong, "1")
        nobody = await targets.connect((namespace, "nobody"), Connection(connection.server, tls), "1")
        fine = await targets.connect((namespace, "fine"), None, "1")
        await until(lambda: fine.ready)
        await until(lambda: refused.record.state is State.UNAUTHORIZED)
        await until(lambda: nobody.record.state is State.FORBIDDEN)
        assert f"in namespace {namespace}: create a Source there" in nobody.record.message


@pytest.mark.cluster
async def test_connecting_again_changes_nothing_until_the_credentials_do(
    connection: Connection, namespace: str
) -> None:
    events: list[tuple[str, Target]] = []
    async with registry(connection) as targets:
        targets.on_attach(lambda target: events.append(("attach", target)))
        targets.on_detach(lambda target: events.append(("detach", target)))
        key = (namespace, "eu")
        first = await targets.connect(key, connection, "1")
        assert await targets.connect(key, connection, "1") is first
        await until(lambda: first.ready)
        second = await targets.connect(key, connection, "2")
        assert second is not first
        await until(lambda: second.ready)
        assert targets.get(key) is targets.by_node(second.node_name) is second
        await targets.disconnect(key)
        await targets.disconnect(key)
        assert len(targets) == 0
        assert targets.by_node(second.node_name) is None
    assert events == [("attach", first), ("detach", first), ("attach", second), ("detach", second)]


@pytest.mark.cluster
async def test_our_chaperons_are_found_by_their_proxy_pod_and_forgotten_with_their_target(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with registry(connection) as targets:
        chaperons = Chaperons(targets, "u")
        told: list[tuple[str, str]] = []
        chaperons.subscribe(told.append)
        key, parent = (namespace, "me"), (namespace, "web")
        target = await targets.connect(key, None, "1")
        await until(lambda: target.ready)
        await client.create(CHAPERONS, chaperon("web-1", "web", "u"), namespace)
        await client.create(CHAPERONS, chaperon("web-2", "web", "another"), namespace)
        (placed,) = await until(lambda: chaperons.of(parent))
        assert (placed.target, placed.chaperon.name) == (target, "web-1")
        assert chaperons.parents(target) == [parent]
        await targets.disconnect(key)
        assert chaperons.of(parent) == []
        told.clear()
        await client.patch(CHAPERONS, "web-1", {"metadata": {"annotations": {"x": "y"}}}, namespace)
        await until(lambda: "x" in target.chaperons.store.get((namespace, "web-1")).annotations)  # type: ignore[union-attr]
        assert chaperons.of(parent) == told == []
        again = await targets.connect(key, None, "1")
        (placed,) = chaperons.of(parent)
        assert placed.target is again


@pytest.mark.cluster
async def test_a_chaperon_without_a_clusters_uid_is_known_whatever_name_it_tells_and_counts_as_made_by_nobody(
    connection: Connection, client: Client, namespace: str
) -> None:
    async with registry(connection) as targets:
        chaperons = Chaperons(targets, "u")
        target = await targets.connect((namespace, "me"), None, "1")
        for name in ("here", "there"):
            made = chaperon(f"by-{name}", name, "u")
            made["metadata"]["labels"] = {  # type: ignore[index]
                names.LABEL_PARENT_UID: "p",
                names.LABEL_PARENT_CLUSTER_NAME: name,
            }
            await client.create(CHAPERONS, made, namespace)
        await until(lambda: len(target.chaperons.store) == 2)
        assert len(chaperons.of((namespace, "here"))) == 1
        assert len(chaperons.of((namespace, "there"))) == 1
        assert chaperons.made_here(target) == []


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (Unauthorized(401, "Unauthorized", "x"), State.UNAUTHORIZED, "renew the kubeconfig Secret"),
        (Forbidden(403, "Forbidden", "x"), State.FORBIDDEN, "create a Source there"),
        (NotFound(404, "NotFound", "x"), State.NOT_INSTALLED, "install the agent there"),
        (Unreachable("refused"), State.UNREACHABLE, "refused"),
        (InvalidConfig("no token"), State.UNREACHABLE, "no token"),
        (ServerError(503, "", "overloaded"), State.FAILING, "overloaded"),
        (KubeError("strange"), State.FAILING, "strange"),
    ],
    ids=["wrong token", "missing right", "no CRDs", "no answer", "no credentials", "server error", "anything else"],
)
def test_every_error_of_a_probe_has_a_state_and_a_remedy(error: KubeError, state: State, words: str) -> None:
    found, message = classify(error, "team")
    assert found is state
    assert words in message


async def test_which_namespaces_a_target_serves_follows_from_its_kind() -> None:
    async with registry(Connection("http://127.0.0.1:1")) as targets:
        own = await targets.connect(("team", "eu"), Connection("http://127.0.0.1:1"), "1")
        everyones = await targets.connect(("", "us"), Connection("http://127.0.0.1:1"), "1")
        assert targets.serving("team") == [own, everyones]
        assert targets.serving("other") == [everyones]
        assert (own.node_name, everyones.node_name) == ("admiralty-team-eu", "admiralty-us")
        await asyncio.sleep(0)
