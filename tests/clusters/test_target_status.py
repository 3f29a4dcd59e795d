"""The only writer of the status of Targets: merges changes of controllers, and writes them to a real API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from agent.api.conditions import Status, set_condition
from agent.api.kinds import TARGET_KINDS, TARGETS
from agent.clusters.cluster import Cluster
from agent.clusters.target_status import TargetStatus, changes
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import Conflict, Invalid, NotFound, Unreachable
from agent.kube.store import Object
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.controllers.target_links import target
from tests.waiting import until

Raw = dict[str, Any]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def with_condition(status: Raw, type: str, value: str = "True", message: str = "m") -> Raw:
    """Return the fields of a status with this condition set."""
    found: Status = "False" if value == "False" else "True"
    return {"conditions": set_condition(status.get("conditions"), type, found, "R", message, NOON)}


A = with_condition({}, "A")
A_AND_B = with_condition(A, "B")


@pytest.mark.parametrize(
    ("status", "said", "changed"),
    [
        pytest.param({}, [], {}, id="nobody says anything"),
        pytest.param({}, [({}, A)], A, id="one says something"),
        pytest.param(A, [(A, A)], {}, id="what is said already"),
        pytest.param({}, [({}, {"conditions": []})], {}, id="no conditions where there are none"),
        pytest.param(A, [(A, {"conditions": []})], {"conditions": []}, id="no conditions any more"),
        pytest.param(A, [({}, A)], {}, id="what has been said meanwhile"),
        pytest.param({}, [({}, A), ({}, with_condition({}, "B"))], A_AND_B, id="two of the same moment"),
        pytest.param(A, [({}, with_condition({}, "B"))], A_AND_B, id="one that did not see what another said before"),
        pytest.param(
            A,
            [(A, with_condition(A, "A", "False")), (A, with_condition(A, "A", message="n"))],
            with_condition({}, "A", message="n"),
            id="the last word counts",
        ),
        pytest.param(
            A,
            [(A, with_condition(A, "A", "False")), (A, A)],
            with_condition({}, "A", "False"),
            id="who says nothing new takes nothing back",
        ),
        pytest.param({"clusterUID": "1"}, [({}, {"clusterUID": "1"} | A)], A, id="a field that is there already"),
        pytest.param({"x": "1"}, [({"x": "1"}, {"x": None}), ({"x": "1"}, A)], {"x": None} | A, id="a field goes"),
        pytest.param({}, [({}, {"x": None})], {}, id="a field that is not there goes"),
        pytest.param({}, [({}, {"x": "1"}), ({}, {"x": "2"})], {"x": "2"}, id="the last word counts for fields"),
    ],
)
def test_what_is_said_of_a_target_together(status: Raw, said: list[tuple[Raw, Raw]], changed: Raw) -> None:
    assert changes(status, said) == changed


class Writing:
    """A writer, and the bodies of its patches."""

    def __init__(self, local: Cluster) -> None:
        self.status = TargetStatus(local)
        self.objects = local.either(TARGET_KINDS)
        self.patches: list[Raw] = []
        self._patch = local.client.patch_raw
        local.client.patch_raw = self._noted  # type: ignore[method-assign]
        self.failures: list[Exception] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def _noted(self, *arguments: Any, **more: Any) -> bytes:
        self.patches.append(arguments[2])
        if self.failures:
            raise self.failures.pop()
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            await meanwhile()
        return await self._patch(*arguments, **more)

    async def say(self, obj: Object, type: str, value: str = "True", message: str = "m") -> None:
        await self.status.write(obj, with_condition(obj.decode().get("status") or {}, type, value, message))


@pytest_asyncio.fixture
async def writing(cluster: SandboxCluster, client: Client) -> AsyncIterator[Writing]:
    """A writer, closed before the client to give the event loop time."""
    local = Cluster(load(str(cluster.kubeconfig)), "local")
    try:
        yield Writing(local)
    finally:
        await local.close()


async def made(writing: Writing, client: Client, namespace: str) -> Object:
    """Create a Target that no controller connects; return it as cached."""
    await client.create(TARGETS, target("us", namespace))
    found = await until(lambda: writing.objects.get((namespace, "us")))
    return found


def newer(writing: Writing, obj: Object) -> Object | None:
    """Return the cached Target, once it has another version; None before."""
    found = writing.objects.get(obj.key)
    return found if found is not None and found.version != obj.version else None


async def told(client: Client, namespace: str) -> dict[str, str]:
    """Return the statuses of the Target's conditions by type."""
    status = (await client.get(TARGETS, "us", namespace)).get("status") or {}
    return {each["type"]: each["status"] for each in status.get("conditions") or ()}


@pytest.mark.cluster
async def test_what_controllers_say_in_one_moment_is_one_write(
    writing: Writing, client: Client, namespace: str
) -> None:
    obj = await made(writing, client, namespace)
    kinds = [f"C{number}" for number in range(8)]
    await asyncio.gather(*(writing.say(obj, kind) for kind in kinds))
    assert await told(client, namespace) == dict.fromkeys(kinds, "True")
    assert len(writing.patches) == 1
    stored = writing.objects.get(obj.key)
    assert stored is not None
    assert stored.version != obj.version, "the answer is in the store"
    await asyncio.gather(*(writing.say(stored, kind) for kind in kinds))
    assert len(writing.patches) == 1, "nothing new is no write"


@pytest.mark.cluster
async def test_who_speaks_while_a_write_is_under_way_is_written_next(
    writing: Writing, client: Client, namespace: str
) -> None:
    obj = await made(writing, client, namespace)
    async with asyncio.TaskGroup() as group:
        group.create_task(writing.say(obj, "A"))
        await until(lambda: len(writing.patches) == 1)
        group.create_task(writing.say(obj, "B"))
        group.create_task(writing.say(obj, "C", "False"))
    assert await told(client, namespace) == {"A": "True", "B": "True", "C": "False"}
    assert len(writing.patches) == 2


@pytest.mark.cluster
async def test_a_finalizer_is_in_nobodys_way(writing: Writing, client: Client, namespace: str) -> None:
    obj = await made(writing, client, namespace)
    finalizers = {"finalizers": ["flotilla.test/hold"]}
    await asyncio.gather(writing.status.patch_metadata(obj, finalizers), writing.say(obj, "A"), writing.say(obj, "B"))
    assert await told(client, namespace) == {"A": "True", "B": "True"}
    assert [list(patch) for patch in writing.patches] == [["metadata"], ["metadata", "status"]]
    newest = newer(writing, obj)
    assert newest is not None
    assert newest.finalizers == finalizers["finalizers"]
    with pytest.raises(Conflict):
        await writing.status.patch_metadata(obj, {"finalizers": ["flotilla.test/other"]})
    said = asyncio.ensure_future(writing.say(newest, "C"))
    await asyncio.sleep(0)
    await writing.status.patch_metadata(newest, {"finalizers": None})
    await said
    found = await client.get(TARGETS, "us", namespace)
    assert "finalizers" not in found["metadata"]


@pytest.mark.cluster
async def test_a_write_that_fails_is_heard_by_all_who_tell_and_is_tried_again(
    writing: Writing, client: Client, namespace: str
) -> None:
    obj = await made(writing, client, namespace)
    writing.failures.append(Unreachable("no answer"))
    errors = await asyncio.gather(writing.say(obj, "A"), writing.say(obj, "B"), return_exceptions=True)
    assert [type(error) for error in errors] == [Unreachable, Unreachable]
    assert await told(client, namespace) == {}
    await asyncio.gather(writing.say(obj, "A"), writing.say(obj, "B"))
    assert await told(client, namespace) == {"A": "True", "B": "True"}


@pytest.mark.cluster
async def test_words_that_are_refused_keep_no_others_unsaid(writing: Writing, client: Client, namespace: str) -> None:
    obj = await made(writing, client, namespace)
    long = "x" * 40_000
    errors = await asyncio.gather(
        writing.say(obj, "A"), writing.say(obj, "B", message=long), writing.say(obj, "C"), return_exceptions=True
    )
    assert [type(error) for error in errors] == [type(None), Invalid, type(None)]
    assert await told(client, namespace) == {"A": "True", "C": "True"}


@pytest.mark.cluster
async def test_what_was_said_of_an_earlier_target_is_a_conflict(
    writing: Writing, client: Client, namespace: str
) -> None:
    obj = await made(writing, client, namespace)
    await client.patch(TARGETS, "us", {"metadata": {"labels": {"a": "b"}}}, namespace)
    labelled = await until(lambda: newer(writing, obj))
    await writing.say(obj, "A")
    assert await told(client, namespace) == {"A": "True"}, "a label changes nothing of what is asked for"
    await client.patch(TARGETS, "us", {"metadata": {"annotations": {"a": "b"}}}, namespace)
    await until(lambda: (found := newer(writing, labelled)) and found.annotations)
    patches = len(writing.patches)
    with pytest.raises(Conflict):
        await writing.say(labelled, "B")
    assert len(writing.patches) == patches
    newest = newer(writing, labelled)
    assert newest is not None
    await writing.say(newest, "B")
    await client.delete(TARGETS, "us", namespace)
    await until(lambda: writing.objects.get(obj.key) is None)
    patches = len(writing.patches)
    with pytest.raises(NotFound):
        await writing.say(newest, "C")
    assert len(writing.patches) == patches


@pytest.mark.cluster
async def test_what_another_agent_has_written_meanwhile_is_overwritten_by_nobody(
    writing: Writing, client: Client, namespace: str
) -> None:
    obj = await made(writing, client, namespace)

    async def write() -> None:
        await client.patch(TARGETS, "us", {"status": with_condition({}, "Other")}, namespace, sub="status")

    writing.meanwhile = write
    errors = await asyncio.gather(writing.say(obj, "A"), writing.say(obj, "B"), return_exceptions=True)
    assert [type(error) for error in errors] == [Conflict, Conflict]
    assert await told(client, namespace) == {"Other": "True"}
    await until(lambda: newer(writing, obj))
    await asyncio.gather(writing.say(obj, "A"), writing.say(obj, "B"))
    assert await told(client, namespace) == {"Other": "True", "A": "True", "B": "True"}


@pytest.mark.cluster
async def test_who_is_ended_leaves_the_write_to_the_next(writing: Writing, client: Client, namespace: str) -> None:
    obj = await made(writing, client, namespace)
    first = asyncio.ensure_future(writing.say(obj, "A"))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(writing.say(obj, "B"))
    await asyncio.sleep(0)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    await second
    assert await told(client, namespace) == {"B": "True"}
    newest = newer(writing, obj)
    assert newest is not None
    await writing.say(newest, "A")
    assert await told(client, namespace) == {"A": "True", "B": "True"}
