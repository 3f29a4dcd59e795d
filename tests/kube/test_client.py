"""Verbs of the client on a real API server, and the errors that its refusals become."""

from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS, TARGETS
from agent.kube import client as module
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth
from agent.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from agent.kube.session import Session
from tests.controllers.proxies import pod_where
from tests.kube.relay import trusting

pytestmark = pytest.mark.cluster


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": name}}, "data": data}


async def test_an_object_is_created_read_replaced_patched_and_deleted(client: Client, namespace: str) -> None:
    created = await client.create(CONFIGMAPS, config_map("a", x="1"), namespace)
    created["data"]["x"] = "2"
    await client.update(CONFIGMAPS, created)
    await client.patch(CONFIGMAPS, "a", {"data": {"y": "3"}}, namespace)
    await client.patch(CONFIGMAPS, "a", [{"op": "remove", "path": "/data/x"}], namespace, style="json")
    await client.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"l": "v"}}}, namespace, style="strategic")
    found = await client.get(CONFIGMAPS, "a", namespace)
    assert found["data"] == {"y": "3"}
    assert found["metadata"]["labels"] == {"app": "a", "l": "v"}
    await client.delete(CONFIGMAPS, "a", namespace)
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "a", namespace)


async def test_applying_creates_what_is_missing_and_takes_over_what_is_not(client: Client, namespace: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap"} | config_map("a", x="1")
    await client.patch(CONFIGMAPS, "a", manifest, namespace, style="apply")
    await client.patch(CONFIGMAPS, "a", {"data": {"x": "theirs"}}, namespace)
    applied = await client.patch(CONFIGMAPS, "a", manifest, namespace, style="apply")
    assert applied["data"] == {"x": "1"}


async def test_lists_come_in_pages_and_know_what_they_hold(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE", "2")
    for number in range(5):
        await client.create(CONFIGMAPS, config_map(f"c{number}"), namespace)
    found = await client.list(CONFIGMAPS, namespace)
    assert len(found) == 6  # with kube-root-ca.crt
    assert {(each["apiVersion"], each["kind"]) for each in found} == {("v1", "ConfigMap")}
    chosen = await client.list(CONFIGMAPS, namespace, labels="app in (c1,c2)", fields="metadata.name!=c1")
    assert [each["metadata"]["name"] for each in chosen] == ["c2"]


async def test_a_deletion_hits_only_the_object_that_was_meant(client: Client, namespace: str) -> None:
    created = await client.create(CONFIGMAPS, config_map("a"), namespace)
    with pytest.raises(Conflict):
        await client.delete(CONFIGMAPS, "a", namespace, uid="another")
    await client.delete(CONFIGMAPS, "a", namespace, uid=created["metadata"]["uid"], propagation="Foreground")


async def test_a_name_taken_is_told_apart_from_another_conflict(client: Client, namespace: str) -> None:
    created = await client.create(CONFIGMAPS, config_map("a"), namespace)
    with pytest.raises(AlreadyExists):
        await client.create(CONFIGMAPS, config_map("a"), namespace)
    await client.patch(CONFIGMAPS, "a", {"data": {"x": "1"}}, namespace)
    with pytest.raises(Conflict) as caught:
        await client.update(CONFIGMAPS, created)
    assert not isinstance(caught.value, AlreadyExists)


async def test_what_the_server_finds_wrong_is_told_in_its_words(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await client.create(CONFIGMAPS, config_map("Not_A_Name"), namespace)
    target = {"apiVersion": TARGETS.api_version, "kind": TARGETS.name, "metadata": {"name": "t"}, "spec": {}}
    with pytest.raises(Invalid, match=r"exactly one|kubeconfigSecret"):
        await client.create(TARGETS, target, namespace)
    with pytest.raises(BadRequest):
        await client.create(CONFIGMAPS, {"metadata": {"name": "a"}, "data": "text"}, namespace)
    with pytest.raises(NotFound):
        await client.create(CONFIGMAPS, config_map("a"), "no-such-namespace")


async def test_a_wrong_token_and_a_missing_right_are_different(
    connection: Connection, client: Client, namespace: str
) -> None:
    tls = trusting(connection)
    async with Session(Connection(connection.server, tls, StaticAuth("Bearer wrong"))) as session:
        with pytest.raises(Unauthorized):
            await Client(session).get(NAMESPACES, namespace)
    async with Session(Connection(connection.server, tls)) as session:
        with pytest.raises(Forbidden, match=r"system:anonymous.*namespaces"):
            await Client(session).get(NAMESPACES, namespace)


async def test_a_token_of_a_service_account_is_made_through_its_subresource(client: Client, namespace: str) -> None:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": "default"}}
    made = await client.create(SERVICE_ACCOUNTS, request, namespace, sub="token")
    assert made["status"]["token"].count(".") == 2


async def test_an_eviction_that_a_budget_forbids_is_tried_again_and_then_told(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.kube.session._RETRY_AFTER_CAP", 0.01)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    await client.session.request(
        "POST", f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", body=module.encode(budget)
    )
    pod = config_map("a") | {"spec": {"nodeName": "test-node-0", "containers": [{"name": "m", "image": "busybox"}]}}
    del pod["data"]
    await client.create(PODS, pod, namespace)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    await pod_where(client, namespace, "a", phase="Running")
    with pytest.raises(TooManyRequests, match="disruption budget"):
        await client.create(PODS, eviction, namespace, sub="eviction")
