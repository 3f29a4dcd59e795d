"""Informers on a real API server, through a relay that breaks connections."""

import asyncio
from typing import Any

import msgspec
import pytest

from agent.api.kinds import CONFIGMAPS, EVENTS, PODS
from agent.kube import informer as module
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.errors import Forbidden
from agent.kube.informer import Informer
from agent.kube.session import Session
from agent.kube.store import metadata_only
from hack.lab.sandbox import Cluster, Sandbox
from tests.kube.etcd import compact
from tests.kube.relay import Relay, trusting
from tests.kube.watching import listed, running, versions
from tests.waiting import until

pytestmark = pytest.mark.cluster


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": name}}, "data": data}


def event(name: str, namespace: str) -> dict[str, Any]:
    about = {"kind": "Pod", "name": name, "namespace": namespace}
    return {"metadata": {"name": name, "namespace": namespace}, "involvedObject": about, "reason": "Test"}


def lists(relay: Relay, plural: str) -> int:
    """Return the requests for the collection: one for the list, one for each watch."""
    return sum(1 for method, path in relay.requests if method == "GET" and path.endswith(plural))


async def test_what_is_there_and_what_changes_reach_store_and_subscribers(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("before"), namespace)
    informer = Informer(client, CONFIGMAPS, namespace)
    async with running(informer) as follower:
        assert informer.store.get((namespace, "before")) is not None
        await client.create(CONFIGMAPS, config_map("after"), namespace)
        await client.patch(CONFIGMAPS, "before", {"data": {"a": "1"}}, namespace)
        await until(lambda: b'"a":"1"' in informer.store.get((namespace, "before")).raw)  # type: ignore[union-attr]
        await client.delete(CONFIGMAPS, "before", namespace)
        await until(lambda: informer.store.get((namespace, "before")) is None)
        assert versions(informer) == follower.known == await listed(client, CONFIGMAPS, namespace)
        assert b"managedFields" not in informer.store.get((namespace, "after")).raw.replace(b'"managedFields":[]', b"")  # type: ignore[union-attr]


async def test_with_metadata_only_no_content_is_kept(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("before", a="confidential"), namespace)
    informer = Informer(client, CONFIGMAPS, namespace, reduce=metadata_only)
    async with running(informer) as follower:
        await client.create(CONFIGMAPS, config_map("after", a="confidential"), namespace)
        await client.patch(CONFIGMAPS, "before", {"data": {"a": "confidential, too"}}, namespace)
        mine = await client.create_raw(CONFIGMAPS, config_map("mine", a="confidential"), namespace)
        assert informer.absorb(mine).labels == {"app": "mine"}
        await until(lambda: len(informer.store) == 4)  # kube-root-ca.crt
        current = await listed(client, CONFIGMAPS, namespace)
        await until(lambda: versions(informer) == follower.known == current)
        assert not any(b"confidential" in obj.raw for obj in informer.store)
        before = informer.store.get((namespace, "before"))
        assert before is not None
        assert before.labels == {"app": "before"}
        await client.delete(CONFIGMAPS, "before", namespace)
        await until(lambda: informer.store.get((namespace, "before")) is None)


async def test_an_object_that_stops_matching_the_selector_leaves_the_store(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("a"), namespace)
    informer = Informer(client, CONFIGMAPS, namespace, labels="app=a")
    async with running(informer) as follower:
        await client.create(CONFIGMAPS, config_map("b"), namespace)
        await client.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"app": "c"}}}, namespace)
        await until(lambda: len(informer.store) == 0)
        await client.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"app": "a"}}}, namespace)
        await until(lambda: len(informer.store) == 1)
        assert follower.known == versions(informer)


def only_metadata(raw: bytes) -> bytes:
    return msgspec.json.encode({"metadata": msgspec.json.decode(raw)["metadata"]})


async def test_of_each_object_only_what_it_is_reduced_to_is_kept(client: Client, namespace: str) -> None:
    await client.create(CONFIGMAPS, config_map("listed", a="1"), namespace)
    informer = Informer(client, CONFIGMAPS, namespace, reduce=only_metadata)
    async with running(informer) as follower:
        await client.create(CONFIGMAPS, config_map("watched", a="1"), namespace)
        await until(lambda: informer.store.get((namespace, "watched")))
        informer.absorb(await client.create_raw(CONFIGMAPS, config_map("absorbed", a="1"), namespace))
        await client.patch(CONFIGMAPS, "listed", {"data": {"a": "2"}}, namespace)
        version = (await client.get(CONFIGMAPS, "listed", namespace))["metadata"]["resourceVersion"]
        await until(lambda: versions(informer)[(namespace, "listed")] == version)
        assert {b'"data"' in obj.raw for obj in informer.store} == {False}
        await client.delete(CONFIGMAPS, "listed", namespace)
        await until(lambda: informer.store.get((namespace, "listed")) is None)
        assert versions(informer) == follower.known == await listed(client, CONFIGMAPS, namespace)


async def test_a_later_subscriber_is_told_of_what_is_there_and_can_stop(client: Client, namespace: str) -> None:
    informer = Informer(client, CONFIGMAPS, namespace)
    async with running(informer):
        told: list[str] = []
        await until(lambda: len(informer.store) == 1)  # kube-root-ca.crt
        stop = informer.subscribe(lambda old, new: told.append((new or old).name))  # type: ignore[union-attr]
        assert told == ["kube-root-ca.crt"]
        stop()
        await client.create(CONFIGMAPS, config_map("a"), namespace)
        await until(lambda: informer.store.get((namespace, "a")))
        assert told == ["kube-root-ca.crt"]


async def test_a_stream_that_the_server_ends_is_resumed_without_a_new_list(
    relay: Relay, relayed: Client, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STREAM_SECONDS", (1, 1))
    informer = Informer(relayed, CONFIGMAPS, namespace)
    async with running(informer) as follower:
        for number in range(25):
            await client.create(CONFIGMAPS, config_map(f"c{number}"), namespace)
            await asyncio.sleep(0.1)
        await until(lambda: informer.store.get((namespace, "c24")))
        assert follower.known == versions(informer) == await listed(client, CONFIGMAPS, namespace)
        assert follower.told == len(follower.known)
    assert lists(relay, "/configmaps") >= 4


async def test_a_version_compacted_away_leads_to_a_new_list_and_nothing_is_lost(
    relay: Relay, relayed: Client, client: Client, cluster: Cluster, namespace: str
) -> None:
    for name in ("stays", "goes", "is-made-anew"):
        await client.create(EVENTS, event(name, namespace))
    # The API server has no watch cache for Events: their watches start in etcd.
    informer = Informer(relayed, EVENTS, namespace)
    async with running(informer) as follower:
        relay.cut()
        await client.delete(EVENTS, "goes", namespace)
        await client.delete(EVENTS, "is-made-anew", namespace)
        for name in ("is-made-anew", "new"):
            await client.create(EVENTS, event(name, namespace))
        await client.patch(EVENTS, "stays", {"count": 2}, namespace)
        await compact(cluster)
        requests = lists(relay, "/events")
        relay.mend()
        informer.interrupt()
        await until(lambda: informer.store.get((namespace, "new")))
        assert follower.known == versions(informer) == await listed(client, EVENTS, namespace)
        assert lists(relay, "/events") >= requests + 2
        await client.create(EVENTS, event("later", namespace))
        await until(lambda: informer.store.get((namespace, "later")))


async def test_an_api_server_that_restarts_costs_no_event(
    sandbox: Sandbox, cluster: Cluster, client: Client, namespace: str
) -> None:
    informer = Informer(client, CONFIGMAPS, namespace)
    async with running(informer) as follower:
        await client.create(CONFIGMAPS, config_map("before"), namespace)
        await sandbox.kill(cluster.name, "kube-apiserver")
        await compact(cluster)
        await sandbox.start(cluster.name, "kube-apiserver")
        await client.delete(CONFIGMAPS, "before", namespace)
        await client.create(CONFIGMAPS, config_map("after"), namespace)
        await until(lambda: informer.store.get((namespace, "after")))
        await until(lambda: informer.store.get((namespace, "before")) is None)
        assert follower.known == versions(informer)
        assert informer.error is None


async def test_an_interrupted_informer_does_not_wait_for_a_stream_that_never_opens(
    relay: Relay, relayed: Client, client: Client, namespace: str
) -> None:
    informer = Informer(relayed, CONFIGMAPS, namespace)
    async with running(informer):
        await until(lambda: lists(relay, "/configmaps") == 2)
        relay.freeze()
        relay.break_streams()
        await until(lambda: lists(relay, "/configmaps") == 3)
        await client.create(CONFIGMAPS, config_map("missed"), namespace)
        relay.mend()
        informer.interrupt()
        await until(lambda: informer.store.get((namespace, "missed")))


async def test_interrupting_at_any_moment_harms_nothing(client: Client, namespace: str) -> None:
    informer = Informer(client, CONFIGMAPS, namespace)
    async with running(informer) as follower:
        for number in range(40):
            informer.interrupt()
            await asyncio.sleep(0.002 * (number % 7))
        await client.create(CONFIGMAPS, config_map("a"), namespace)
        await until(lambda: informer.store.get((namespace, "a")))
        assert follower.known == versions(informer)


async def test_the_answer_to_our_own_write_is_taken_once_and_only_if_it_is_news(
    relay: Relay, relayed: Client, client: Client, namespace: str
) -> None:
    informer = Informer(relayed, CONFIGMAPS, namespace)
    informer.absorb(await client.create_raw(CONFIGMAPS, config_map("unsynced"), namespace))
    assert len(informer.store) == 0
    async with running(informer) as follower:
        await until(lambda: lists(relay, "/configmaps") == 2 and len(informer.store) == 2)
        relay.freeze()
        relay.break_streams()
        created = await client.create_raw(CONFIGMAPS, config_map("a"), namespace)
        changed = await client.patch_raw(CONFIGMAPS, "a", {"data": {"x": "y"}}, namespace)
        told = follower.told
        for answer in (changed, created, changed):
            informer.absorb(answer)
        assert follower.told == told + 1
        relay.mend()
        informer.interrupt()
        await client.create(CONFIGMAPS, config_map("b"), namespace)
        await until(lambda: informer.store.get((namespace, "b")))
        assert follower.told == told + 2
        await client.delete(CONFIGMAPS, "a", namespace)
        await until(lambda: informer.store.get((namespace, "a")) is None)
        informer.absorb(changed)
        assert informer.store.get((namespace, "a")) is None


async def test_the_late_news_of_a_deletion_does_not_remove_what_was_made_anew(
    relay: Relay, relayed: Client, client: Client, namespace: str
) -> None:
    await client.create(CONFIGMAPS, config_map("a", incarnation="1"), namespace)
    informer = Informer(relayed, CONFIGMAPS, namespace)
    async with running(informer) as follower:
        await until(lambda: lists(relay, "/configmaps") == 2)
        relay.freeze()
        relay.break_streams()
        await client.delete(CONFIGMAPS, "a", namespace)
        informer.absorb(await client.create_raw(CONFIGMAPS, config_map("a", incarnation="2"), namespace))
        gone: list[str] = []
        informer.subscribe(lambda old, new: gone.append(old.name) if old and not new else None)
        relay.mend()
        informer.interrupt()
        await client.create(CONFIGMAPS, config_map("b"), namespace)
        await until(lambda: informer.store.get((namespace, "b")))
        assert gone == []
        assert follower.known == versions(informer)


async def test_what_keeps_an_informer_from_its_list_is_told(connection: Connection) -> None:
    nobody = Connection(connection.server, trusting(connection))
    async with Session(nobody) as session:
        informer = Informer(Client(session), PODS)
        task = asyncio.create_task(informer.run())
        error = await until(lambda: informer.error)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert isinstance(error, Forbidden)
    assert "system:anonymous" in str(error)
    assert not informer.synced.is_set()
