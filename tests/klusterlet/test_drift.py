"""Watches on applied objects and pauses between repairs, the Secret of a hub, and the record of applied objects."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS, Kind
from agent.clusters.cluster import Cluster
from agent.klusterlet import ledger
from agent.klusterlet.drift import MOST_WATCHES, Repairs, Watches
from agent.klusterlet.hub import read
from agent.klusterlet.ledger import Entry
from agent.klusterlet.manifests import Identity, Meta
from agent.klusterlet.writer import signature
from agent.kube.config import Connection
from agent.kube.errors import InvalidConfig

Raw = dict[str, Any]

ONE = Identity("", "configmaps", "shop", "a")


def test_repairs_come_at_once_and_then_with_growing_pauses() -> None:
    repairs = Repairs()
    pauses, now = [], 0.0
    for _ in range(9):
        pauses.append(repairs.pause(ONE, now))
        now += pauses[-1]
        repairs.note(ONE, "kubectl", now)
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert repairs.pause(ONE, now + 1000) == 0
    assert repairs.pause(Identity("", "configmaps", "shop", "b"), now) == 0


def test_a_rival_is_named_after_three_repairs_of_the_same_writer() -> None:
    repairs = Repairs()
    for number, (rival, named) in enumerate(
        [("hpa", ""), ("hpa", ""), ("hpa", "hpa"), ("kubectl", ""), ("kubectl", ""), ("kubectl", "kubectl")]
    ):
        repairs.note(ONE, rival, float(number))
        assert repairs.rival(ONE, float(number)) == named
    assert repairs.rival(ONE, 2000.0) == ""


KUBECONFIG = """
current-context: hub
contexts: [{name: hub, context: {cluster: hub, user: hub}}]
clusters: [{name: hub, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: hub, user: {token: abc}}]
"""


def secret(**values: str) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


def test_the_secret_names_the_cluster_and_the_agent() -> None:
    access = read(secret(kubeconfig=KUBECONFIG, **{"cluster-name": "us\n", "agent-name": "x"}))
    assert (access.cluster, access.agent, len(access.hash)) == ("us", "x", 64)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "'kubeconfig' is missing"),
        (secret(kubeconfig=KUBECONFIG), "'cluster-name' is missing"),
        ({"kubeconfig": "%", **secret(**{"cluster-name": "us"})}, "no base64"),
        (secret(kubeconfig="[]", **{"cluster-name": "us"}), "kubeconfig"),
        (secret(kubeconfig="{clusters: 1, users: 2}", **{"cluster-name": "us"}), "no current-context"),
    ],
)
def test_an_invalid_secret_is_refused_with_the_key(data: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        read(data)


def meta(name: str, resource: str = "configmaps", version: str = "v1") -> Meta:
    return Meta(0, "", version, "ConfigMap", resource, "shop", name)


def test_a_ledger_names_objects_before_they_exist_and_keeps_known_uids() -> None:
    before = {ONE: Entry("v1", "uid")}
    found = ledger.intended(before, [meta("a"), meta("b")])
    assert found == {ONE: Entry("v1", "uid"), ONE._replace(name="b"): Entry("v1", "")}
    assert ledger.read({"status": {"appliedResources": ledger.written(found)}}) == found


def test_objects_that_no_manifest_describes_are_removed_unless_their_kind_is_not_served() -> None:
    before = {ONE: Entry("v1", "1"), ONE._replace(name="b"): Entry("v1", "2"), ONE._replace(name="c"): Entry("v1", "3")}
    found = ledger.removed(before, [meta("a", version="v2"), meta("b", resource="")])
    assert {identity.name for identity in found} == {"c"}


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"resourceVersion": "2"}, True),
        ({"generation": 2}, False),
        ({"labels": {"a": "2"}}, False),
        ({"ownerReferences": []}, False),
        ({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x"}}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_a_signature_changes_with_contents_and_not_with_status(changes: Raw, *, same: bool) -> None:
    metadata: Raw = {"uid": "u", "resourceVersion": "1", "generation": 1, "ownerReferences": [{"uid": "x"}]}
    assert (signature(metadata) == signature({**metadata, **changes})) == same
    without = {"uid": "u", "resourceVersion": "1"}
    assert signature(without) != signature({**without, "resourceVersion": "2"})


@pytest.fixture
async def nowhere() -> AsyncIterator[Cluster]:
    """A cluster that does not answer: its watches are started and never read anything."""
    cluster = Cluster(Connection("http://127.0.0.1:1"), "nowhere")
    yield cluster
    await cluster.close()


def running(cluster: Cluster) -> list[tuple[str, str | None, str]]:
    return sorted((each.kind.plural, each.namespace, each.selectors["fields"]) for each in cluster.informers)


def objects(*names: str, namespace: str = "shop") -> dict[Identity, Kind]:
    return {Identity("", "configmaps", namespace, name): CONFIGMAPS for name in names}


async def test_a_watch_selects_one_object_by_name_and_widens_for_more(nowhere: Cluster) -> None:
    watches = Watches(nowhere.informers)
    watches.want("w", objects("a"))
    assert running(nowhere) == [("configmaps", "shop", "metadata.name=a")]
    watches.want("v", objects("a"))
    assert running(nowhere) == [("configmaps", "shop", "metadata.name=a")]
    assert sorted(watches.keys(ONE)) == ["v", "w"]
    watches.want("v", objects("a", "b"))
    assert running(nowhere) == [("configmaps", "shop", "")]
    watches.want("w", {})
    assert watches.keys(ONE) == ["v"]
    watches.want("v", {})
    assert running(nowhere) == []
    assert watches.keys(ONE) == []


async def test_watches_are_limited_and_a_free_one_is_used(nowhere: Cluster) -> None:
    watches = Watches(nowhere.informers)
    for number in range(MOST_WATCHES + 1):
        watches.want(f"w{number}", objects("a", namespace=f"n{number}"))
    assert len(running(nowhere)) == MOST_WATCHES
    watches.want("w0", {})
    found = {namespace for _, namespace, _ in running(nowhere)}
    assert found == {f"n{number}" for number in range(1, MOST_WATCHES + 1)}
