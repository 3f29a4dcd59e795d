"""Orphans of deleted sources: detection without a cluster, removal on a real one."""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.heartbeat_policies import LONGEST, SHARED_AT_MOST
from agent.api.kinds import CHAPERONS, CONFIGMAPS, LEASES, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, SECRETS, Kind
from agent.api.labels import is_key
from agent.cli.options import Failed
from agent.cli.orphaned.lines import Owned, SourceLine, State, source_lines, table
from agent.cli.orphans import check, chosen
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model import heartbeats
from agent.model.heartbeats import Account, Sign
from hack.lab.sandbox import Cluster
from tests.cli.command import flotilla
from tests.waiting import gone

Raw = dict[str, Any]

NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
SHARED = names.sign("good")
KINDS = {"claims": "PersistentVolumeClaim", "chaperons": "PodChaperon"}


def owned(source: str, kind: str = "PodChaperon", minutes: float = 10, namespace: str = "a") -> Owned:
    return Owned(kind, namespace, "x", source, f"name of {source}", NOW - timedelta(minutes=minutes))


def account(username: str, uid: Any) -> Account:
    return heartbeats.account_of({"status": {"userInfo": {"username": username, "uid": uid, "groups": []}}})


def sign(minutes: float) -> Sign:
    return Sign(NOW - timedelta(minutes=minutes), "holder", "told")


def found(*each: Owned, given: dict[str, Sign] | None = None) -> dict[str, SourceLine]:
    return {line.uid: line for line in source_lines(each, given or {}, "here", NOW, **KINDS)}


def test_a_source_lives_while_it_gives_signs() -> None:
    lines = found(
        *map(owned, ("lives", "silent", "never", "here")),
        given={"lives": sign(2), "silent": sign(20), "other": sign(1)},
    )
    states = {uid: line.state for uid, line in lines.items()}
    assert states == {
        "never": State.NO_SIGN,
        "silent": State.SILENT,
        "here": State.HERE,
        "lives": State.ALIVE,
    }
    assert [line.name for line in lines.values()] == ["name of never", "told", "name of here", "told"]
    assert list(states)[:2] == ["never", "silent"], "what may be orphans comes first"


def test_what_it_has_is_counted_by_what_becomes_of_it() -> None:
    line = found(
        owned("u", minutes=5),
        owned("u", minutes=90, namespace="b"),
        owned("u", "Secret"),
        owned("u", "Service"),
        owned("u", "PersistentVolumeClaim"),
    )["u"]
    assert (line.pods, line.copies, line.claims) == (2, 2, 1)
    assert line.namespaces == ["a", "b"]
    heads, (row,) = table([line], NOW, wide=True)
    assert dict(zip(heads, row, strict=True)) == {
        "SOURCE": "name of u",
        "UID": "u",
        "STATE": "no sign",
        "LAST SIGN": "-",
        "PODS": "2",
        "COPIES": "2",
        "CLAIMS": "1",
        "OLDEST": "90m",
        "NAMESPACES": "a,b",
    }


def test_only_sources_that_are_named_and_give_no_sign_are_cleaned() -> None:
    lines = found(owned("lives"), owned("gone-1"), owned("gone-2"), owned("here"), given={"lives": sign(1)})
    everything = list(lines.values())
    assert chosen(everything, "gone-1").uid == "gone-1"
    for uid, why in (("gone", "several sources begin"), ("other", "no source begins")):
        with pytest.raises(Failed, match=why):
            chosen(everything, uid)
    for uid, why in (("lives", "is alive"), ("here", "this cluster itself")):
        with pytest.raises(Failed, match=why):
            check([lines[uid]], [uid])
    with pytest.raises(Failed, match="which sources"):
        check(everything, [])
    check([lines["gone-1"]], ["gone-1"])


def test_signs_that_cannot_be_read_are_none() -> None:
    annotations = {
        names.sign("good"): '{"seen":"2026-11-23T12:00:00Z","holder":"h","name":"cd"}',
        names.sign("no-zone"): '{"seen":"2026-11-23T12:00:00"}',
        names.sign("other"): "x",
        "unrelated": '{"seen":"2026-11-23T12:00:00Z"}',
    }
    assert heartbeats.read(annotations) == {"good": Sign(NOW, "h", "cd")}
    assert heartbeats.read(None) == {}
    body: Any = heartbeats.patch("good", Sign(NOW, "h", "cd"), "7")
    assert heartbeats.read(body["metadata"]["annotations"]) == {"good": Sign(NOW, "h", "cd")}
    assert body["metadata"]["resourceVersion"] == "7"


def test_a_sign_under_the_key_of_an_account_counts_before_one_that_any_source_may_write() -> None:
    """An API server lets only the account itself write a key with its name."""
    mine = account("system:serviceaccount:team:cd", "0a1b-2c")
    forged = Sign(NOW + timedelta(hours=1), "evil", "evil", account=mine.name)
    body: Any = heartbeats.patch("good", Sign(NOW, "h", "cd"), "7", mine)
    annotations = body["metadata"]["annotations"] | {names.sign("good"): msgspec.json.encode(forged).decode()}
    assert heartbeats.read(annotations) == {"good": Sign(NOW, "h", "cd", mine.name)}
    shared = heartbeats.of_source(annotations, "good")[names.sign("good")]
    assert (shared.holder, shared.account) == ("evil", ""), "what is under a shared key is of no account"
    assert (
        sorted(heartbeats.keys_of(annotations, "good"))
        == sorted(annotations)
        == ["0a1b-2c.multicluster/source-good", SHARED]
    )
    assert all(is_key(key) for key in annotations)


def test_a_shared_key_is_left_out_where_there_are_as_many_as_may_be() -> None:
    mine = account("system:serviceaccount:team:cd", "0a1b-2c")
    full = {names.sign(f"u{i}"): "x" for i in range(SHARED_AT_MOST)}
    for writer, others, keys in (
        (mine, full, {names.sign("good", mine.uid)}),
        (mine, full | {SHARED: "x"}, {names.sign("good", mine.uid), SHARED}),
        (mine, {}, {names.sign("good", mine.uid), SHARED}),
        (heartbeats.NOBODY, full, {SHARED}),
    ):
        body: Any = heartbeats.patch("good", Sign(NOW, "h", "cd" * 200), "7", writer, others)
        assert body["metadata"]["annotations"].keys() == keys
        assert all(len(text) <= LONGEST for text in body["metadata"]["annotations"].values())


@pytest.mark.parametrize(
    ("user", "uid"),
    [
        ("admin", ""),
        ("admin", "0a1b"),
        ("system:serviceaccount:a:b", ""),
        ("system:serviceaccount:a:b", "aws:1/2"),
        ("system:serviceaccount:a:" + "b" * 400, "0a1b"),
        ("system:serviceaccount:a:b", 5),
    ],
)
def test_a_user_of_whom_no_key_can_be_made_has_none(user: str, uid: Any) -> None:
    assert account(user, uid) == heartbeats.NOBODY


@pytest.mark.parametrize("review", [{}, {"status": "x"}, {"status": {"userInfo": []}}, [], "x", None])
def test_an_answer_that_names_no_user_names_no_account(review: object) -> None:
    assert heartbeats.account_of(review) == heartbeats.NOBODY


def test_the_longest_sign_is_as_long_as_the_policy_lets_it_be() -> None:
    longest = account(f"system:serviceaccount:{'n' * 63}:{'a' * 253}", "0" * 36)
    body: Any = heartbeats.patch("u" * 36, Sign(NOW.replace(microsecond=123456), "f" * 16, "c" * 300), "7", longest)
    assert max(map(len, body["metadata"]["annotations"].values())) <= LONGEST
    assert len(heartbeats.read(body["metadata"]["annotations"])) == 1


async def make(client: Client, namespace: str, kind: Kind, source: str, **more: Any) -> None:
    """Create an object as a source would."""
    labels = {names.LABEL_PARENT_CLUSTER_UID: source, names.LABEL_PARENT_CLUSTER_NAME: "old"}
    head = {"apiVersion": kind.api_version, "kind": kind.name}
    metadata = {"name": f"{kind.plural}-{source[:8]}", "labels": labels}
    await client.create(kind, {**head, "metadata": metadata, **more}, namespace)


@pytest.mark.cluster
@pytest.mark.usefixtures("alone")
async def test_what_a_source_that_is_gone_has_left_is_shown_and_deleted(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    here = (await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    dead, alive = (f"{secrets.token_hex(4)}-{word}" for word in ("dead", "alive"))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "no"}
    for source in (dead, alive, here):
        await make(client, namespace, CHAPERONS, source, spec={"containers": []})
        await make(client, namespace, CONFIGMAPS, source)
        await make(client, namespace, PERSISTENT_VOLUME_CLAIMS, source, spec=claim)
    labels = {names.LABEL_TOKEN_OF: dead}
    await client.create(SECRETS, {"metadata": {"name": "token", "labels": labels}}, namespace)
    now = datetime.now(UTC)
    writer = account("system:serviceaccount:team:cd", "0a1b")
    given = {alive: Sign(now, "h", "living"), dead: Sign(now - timedelta(hours=3), "h", "old")}
    texts = {
        key: text
        for uid, each in given.items()
        for key, text in heartbeats.patch(uid, each, "", writer)["metadata"]["annotations"].items()  # type: ignore[index]
    }
    await client.create(LEASES, {"metadata": {"name": names.LEASE_SOURCES, "annotations": texts}}, namespace)
    options = ("--kubeconfig", str(cluster.kubeconfig))

    status, shown, errors = await flotilla("orphans", *options)
    assert (status, errors) == (0, "")
    heads, *rows = shown.splitlines()
    assert heads.split()[:2] == ["SOURCE", "UID"]
    (row,) = [row for row in rows if dead in row]
    assert row.split()[:6] == ["old", dead, "silent", "3h", "ago", "1"]
    assert not [row for row in rows if alive in row or here in row]
    _, shown, _ = await flotilla("orphans", "--all", *options)
    assert any(alive in row and " alive " in row for row in shown.splitlines())
    assert any(here in row and " this cluster " in row for row in shown.splitlines())

    for words, why in (
        (("--delete",), "which sources?"),
        (("--delete", alive), "is alive"),
        (("--delete", here), "is this cluster itself"),
        (("--delete", dead), "say --yes"),
    ):
        status, _, errors = await flotilla("orphans", *words, *options)
        assert status == 1
        assert why in errors
    status, said, errors = await flotilla("orphans", dead[:10], "--delete", "--yes", *options)
    assert (status, errors) == (0, "")
    assert "but 1 volume claims" in said
    await client.get(PERSISTENT_VOLUME_CLAIMS, f"persistentvolumeclaims-{dead[:8]}", namespace)
    for kind, name in (
        (CHAPERONS, f"podchaperons-{dead[:8]}"),
        (CONFIGMAPS, f"configmaps-{dead[:8]}"),
        (SECRETS, "token"),
    ):
        with pytest.raises(NotFound):
            await client.get(kind, name, namespace)
    lease = await client.get(LEASES, names.LEASE_SOURCES, namespace)
    assert heartbeats.read(lease["metadata"]["annotations"]).keys() == {alive}
    status, _, _ = await flotilla("orphans", dead, "--delete", "--yes", "--volumes", *options)
    assert status == 0
    await gone(lambda: client.get(PERSISTENT_VOLUME_CLAIMS, f"persistentvolumeclaims-{dead[:8]}", namespace))
    for source in (alive, here):
        await client.get(CHAPERONS, f"podchaperons-{source[:8]}", namespace)
        await client.get(CONFIGMAPS, f"configmaps-{source[:8]}", namespace)
        await client.delete(CHAPERONS, f"podchaperons-{source[:8]}", namespace)
