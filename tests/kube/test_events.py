"""Events, read back from a real API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import NAMESPACES, NODES, PODS
from agent.base.clock import SystemClock
from agent.kube import events
from agent.kube.client import Client
from agent.kube.events import EVENTS, Recorder
from tests.waiting import until

pytestmark = pytest.mark.cluster


@pytest.fixture
async def recorder(client: Client) -> AsyncIterator[Recorder]:
    recorder = Recorder(client, SystemClock())
    task = asyncio.create_task(recorder.run())
    yield recorder
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def pod(namespace: str, name: str = "web") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": "u1"}
    return {"apiVersion": PODS.api_version, "kind": PODS.name, "metadata": metadata}


async def told(client: Client, namespace: str, count: int = 1) -> list[dict[str, Any]]:
    async def probe() -> list[dict[str, Any]] | None:
        found = await client.list(EVENTS, namespace)
        return found if len(found) == count else None

    return await until(probe)


async def test_an_event_says_about_what_by_whom_and_why(recorder: Recorder, client: Client, namespace: str) -> None:
    recorder.event(pod(namespace), "Warning", "FailedScheduling", "no target")
    (event,) = await told(client, namespace)
    assert event["involvedObject"]["name"] == "web"
    assert event["involvedObject"]["uid"] == "u1"
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "FailedScheduling", "no target")
    assert (event["source"]["component"], event["count"]) == ("flotilla", 1)


async def test_a_repetition_within_a_minute_writes_nothing(recorder: Recorder, client: Client, namespace: str) -> None:
    for _ in range(3):
        recorder.event(pod(namespace), "Normal", "Same", "same")
    recorder.event(pod(namespace), "Normal", "Other", "other")
    found = await told(client, namespace, 2)
    assert [event["count"] for event in found] == [1, 1]


async def test_a_later_repetition_raises_the_count_also_after_a_restart(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "REPEAT_SECONDS", 0.0)
    for expected in ((1, 2), (3, 4)):
        recorder = Recorder(client, SystemClock())
        task = asyncio.create_task(recorder.run())
        for count in expected:
            recorder.event(pod(namespace), "Normal", "Same", "same")

            async def counted(count: int = count) -> bool:
                found = await client.list(EVENTS, namespace)
                return [event["count"] for event in found] == [count]

            await until(counted)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_event_about_an_object_without_namespace_is_in_default(
    recorder: Recorder, client: Client, namespace: str
) -> None:
    node = {"apiVersion": "v1", "kind": NODES.name, "metadata": {"name": f"node-of-{namespace}", "uid": "n"}}
    recorder.event(node, "Normal", "Ready", "ready")

    async def probe() -> bool:
        found = await client.list(EVENTS, "default", fields=f"involvedObject.name=node-of-{namespace}")
        return len(found) == 1

    await until(probe)


async def test_long_names_and_messages_are_cut_to_what_the_server_takes(
    recorder: Recorder, client: Client, namespace: str
) -> None:
    recorder.event(pod(namespace, "a" * 199 + "-" + "b" * 40), "Normal", "Long", "x" * 5000)
    (event,) = await told(client, namespace)
    assert len(event["message"]) == 1024


async def test_an_event_that_cannot_be_written_stops_no_other(
    recorder: Recorder, client: Client, namespace: str
) -> None:
    recorder.event(pod("no-such-namespace"), "Normal", "Lost", "lost")
    recorder.event(pod(namespace), "Normal", "Found", "found")
    (event,) = await told(client, namespace)
    assert event["reason"] == "Found"


async def test_more_events_than_anybody_reads_are_dropped_rather_than_kept(client: Client) -> None:
    recorder = Recorder(client, SystemClock())
    for number in range(events._WAITING + 50):
        recorder.event(pod("any"), "Normal", "Flood", str(number))
    assert recorder._queue.qsize() == events._WAITING


async def test_an_event_about_an_object_in_a_namespace_that_is_being_deleted_is_about_the_namespace(
    recorder: Recorder, client: Client
) -> None:
    name = "test-terminating-events"
    await client.create(NAMESPACES, {"metadata": {"name": name}, "spec": {"finalizers": ["example.com/kept"]}})
    await client.delete(NAMESPACES, name)

    async def terminating() -> bool:
        return (await client.get(NAMESPACES, name))["status"]["phase"] == "Terminating"

    try:
        await until(terminating)
        recorder.event(pod(name), "Warning", "Unreachable", "annotate it")

        async def about() -> list[dict[str, Any]]:
            return await client.list(EVENTS, "default", fields=f"involvedObject.name={name}")

        (event,) = await until(about)
        assert (event["involvedObject"]["kind"], event["reason"]) == ("Namespace", "Unreachable")
        assert event["message"] == "Pod web: annotate it"
    finally:
        await client.update(
            NAMESPACES, (await client.get(NAMESPACES, name)) | {"spec": {"finalizers": []}}, sub="finalize"
        )
