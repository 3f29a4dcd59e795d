"""Identity of a target's cluster: the UID that it publishes on a real API server, and its consequences."""

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_SUMMARIES, NAMESPACES, SERVICE_ACCOUNTS
from agent.clusters.health.record import State
from agent.clusters.identity import ANY, Expected, Identity, Told, judge
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth, load
from agent.kube.errors import KubeError, NotFound, Unreachable
from agent.kube.session import Session
from agent.kube.store import Object
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.clusters.test_target import PROBING, registry
from tests.kube.relay import Relay, trusting
from tests.waiting import until

VIEWER = "multicluster-scheduler-cluster-summary-viewer"
SOURCE = "multicluster-scheduler-source"


@pytest.mark.parametrize(
    ("expected", "told", "want"),
    [
        (ANY, Told("b"), None),
        (Expected("a"), Told("a"), None),
        (Expected("a"), Told("b"), State.WRONG_CLUSTER),
        (Expected("a", accepted="b"), Told("b"), None),
        (Expected("a", accepted="b"), Told("c"), State.WRONG_CLUSTER),
        (Expected("a", joined="b"), Told("b"), State.WRONG_CLUSTER),
        (Expected(joined="a"), Told("b"), State.WRONG_CLUSTER),
        (Expected(joined="a"), Told("a"), None),
        (Expected("a"), Told(), None),
        (Expected("a"), Told(silent=True), State.NOT_INSTALLED),
        (Expected(joined="a"), Told(silent=True), None),
        (ANY, Told(silent=True), None),
    ],
    ids=[
        "nothing is known of it",
        "the same",
        "another",
        "another that a person accepts",
        "a third",
        "the status counts more than what it was made for",
        "another than it was made for",
        "that which it was made for",
        "it tells none and lets nobody look",
        "its agent has written nothing yet",
        "the same before anything was sent there",
        "the same where nothing is known",
    ],
)
def test_what_a_cluster_tells_is_compared_with_what_its_target_stands_for(
    expected: Expected, told: Told, want: State | None
) -> None:
    found = judge(expected, told)
    assert (found[0] if found else None) is want


def test_the_message_names_both_clusters_and_the_remedy() -> None:
    found = judge(Expected("the-old-one"), Told("the-new-one"))
    assert found is not None
    for word in ("cluster the-old-one", "cluster the-new-one", "multicluster/accept-cluster=the-new-one"):
        assert word in found[1]


def summary(uid: str | None) -> Object:
    annotations = {names.ANNOTATION_CLUSTER_UID: uid} if uid is not None else {}
    manifest = {"metadata": {"name": names.SUMMARY_NAME, "annotations": annotations}}
    return Object(CLUSTER_SUMMARIES, msgspec.json.encode(manifest))


async def test_a_summary_that_tells_another_uid_has_the_cluster_asked_again() -> None:
    async with Session(Connection("http://127.0.0.1:1")) as session:
        identity, certain = Identity(session, 1.0), Identity(session, 1.0, certain=True)
        for nothing in (None, summary(None), summary(""), summary("x" * 100), summary("a b")):
            assert not identity.hear(nothing)
        assert identity.hear(summary("b"))
        assert not certain.hear(summary("b"))
        assert certain.sure


@pytest.fixture
def connection(cluster: SandboxCluster) -> Connection:
    return load(str(cluster.kubeconfig))


@pytest.fixture
async def uid(client: Client) -> str:
    return str((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


@pytest.fixture
async def weak(connection: Connection, client: Client, namespace: str) -> AsyncIterator[Connection]:
    """A connection with the rights of a source, which may not read namespaces."""
    account = {"metadata": {"name": "cd", "namespace": namespace}}
    await client.create(SERVICE_ACCOUNTS, account)
    answer = await client.create(SERVICE_ACCOUNTS, {**account, "spec": {}}, sub="token")
    for role in (SOURCE, VIEWER):
        binding = {
            "metadata": {"name": f"{role}-{namespace}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "cd", "namespace": namespace}],
        }
        await client.create(CLUSTER_ROLE_BINDINGS, binding)
    token = StaticAuth(f"Bearer {answer['status']['token']}")
    yield Connection(connection.server, trusting(connection), token)
    for role in (SOURCE, VIEWER):
        await client.delete(CLUSTER_ROLE_BINDINGS, f"{role}-{namespace}")


@pytest.fixture
async def tell(client: Client) -> AsyncIterator[Any]:
    """Write the ClusterSummary as an agent does, without a UID for None; delete it at the end."""

    async def write(uid: str | None) -> None:
        metadata = {"name": names.SUMMARY_NAME, "annotations": {names.ANNOTATION_CLUSTER_UID: uid}}
        try:
            await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, {"metadata": metadata})
        except NotFound:
            if uid is None:
                del metadata["annotations"]
            head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
            await client.create(CLUSTER_SUMMARIES, {**head, "metadata": metadata, "capacity": {}, "allocatable": {}})

    await remove(client)
    yield write
    await remove(client)


async def remove(client: Client) -> None:
    try:
        await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    except NotFound:
        return


async def asked(connection: Connection, expected: Expected = ANY) -> Identity | KubeError:
    async with Session(connection) as session:
        identity = Identity(session, 5.0)
        identity.expect(expected)
        try:
            await identity.ask()
        except KubeError as error:
            return error
        return identity


async def uid_told(connection: Connection) -> str:
    identity = await asked(connection)
    return identity.uid if isinstance(identity, Identity) else str(identity)


@pytest.mark.cluster
async def test_a_source_learns_it_from_the_summary_and_otherwise_where_it_may_read_the_namespace(
    connection: Connection, weak: Connection, tell: Any, uid: str
) -> None:
    assert await uid_told(connection) == uid
    # A new right may take a moment to apply.
    await until(lambda: nothing_told(weak))
    await tell(None)
    assert await uid_told(connection) == uid
    assert await uid_told(weak) == ""
    await tell("told")
    assert await uid_told(connection) == "told"
    assert await uid_told(weak) == "told"
    await tell("no UID at all: " + 1000 * "x")
    assert await uid_told(weak) == ""


async def nothing_told(weak: Connection) -> bool:
    found = await asked(weak, Expected("a"))
    return isinstance(found, Identity) and found.problem is not None and found.problem[0] is State.NOT_INSTALLED


@pytest.mark.cluster
async def test_a_cluster_that_gives_no_answer_is_not_taken_for_another(connection: Connection) -> None:
    async with Relay.started(connection) as relay:
        relay.cut()
        assert isinstance(await asked(relay.connection, Expected("a")), Unreachable)


@pytest.mark.cluster
async def test_a_target_is_the_cluster_that_it_has_to_be_before_it_is_ready(
    connection: Connection, namespace: str, uid: str
) -> None:
    states: list[State] = []
    attached: list[str] = []
    async with registry(connection) as targets:
        targets.on_change(lambda target: states.append(target.record.state))
        targets.on_attach(lambda target: attached.append(target.title))
        wrong = await targets.connect((namespace, "eu"), connection, "1", expected=Expected("another"))
        await until(lambda: wrong.record.state is State.WRONG_CLUSTER)
        assert wrong.summary is None
        assert State.READY not in states
        assert attached == []
        assert wrong.identity.expect(Expected("another", accepted=uid))
        wrong.probe_now()
        await until(lambda: wrong.ready)
        assert (attached, wrong.identity.uid) == (["eu"], uid)


@pytest.mark.cluster
async def test_a_target_is_asked_which_cluster_it_is_when_it_comes_back_and_not_while_it_answers(
    connection: Connection, namespace: str
) -> None:
    def times() -> int:
        return sum(path.endswith(f"clustersummaries/{names.SUMMARY_NAME}") for _, path in relay.requests)

    probing = dataclasses.replace(PROBING, agent_interval=3600)
    async with Relay.started(connection) as relay, registry(connection, probing) as targets:
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(lambda: target.ready)
        before, probes = times(), len(relay.requests)
        assert before == 1
        await until(lambda: len(relay.requests) > probes + 5)
        assert times() == before
        relay.cut()
        await until(lambda: target.record.state is State.UNREACHABLE)
        relay.mend()
        await until(lambda: target.ready)
        assert times() == before + 1


@pytest.mark.cluster
async def test_a_target_that_begins_to_tell_which_cluster_it_is_goes_on_as_it_was(
    weak: Connection, namespace: str, tell: Any
) -> None:
    async with registry(weak) as targets:
        await tell(None)
        target = await targets.connect((namespace, "eu"), weak, "1")
        await until(lambda: target.ready)
        assert target.identity.uid == ""
        states: list[State] = []
        targets.on_change(lambda target: states.append(target.record.state))
        await tell("told")
        await until(lambda: target.identity.uid == "told")
        assert target.ready
        assert set(states) <= {State.READY}
