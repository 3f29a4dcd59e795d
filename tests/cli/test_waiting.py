"""Waiting for one pod to move, on a real API server: the wait always ends, whatever happens to the pod."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CONFIGMAPS, JOBS, PODS, Kind
from agent.api.names import virtual_node
from agent.base.clock import SystemClock
from agent.cli.moving.preview import Preview
from agent.cli.moving.waiting import Waiting
from agent.cli.moving.world import Meant, read_world
from agent.cli.options import Failed
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.informers import Informers
from agent.settings import Settings
from tests.controllers.targets.test_target import proxy
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


class Trial:
    """A pod `web-1` bound to a virtual node, its owner, and the wait for it."""

    def __init__(self, client: Client, namespace: str, owner: Raw) -> None:
        self._client, self._namespace, self._owner = client, namespace, owner
        self.said: list[str] = []

    async def make(self, name: str, *, owned: bool = True) -> Object:
        """Create a pod. Its owner's kind is one that the command does not read."""
        pod = proxy(name, self._namespace, node=virtual_node(self._namespace, "eu"))
        pod["metadata"]["ownerReferences"] = [self._owner] if owned else []
        await self._client.create(PODS, pod)
        return Object(PODS, await self._client.get_raw(PODS, name, self._namespace))

    async def end(self, name: str) -> None:
        await self._client.delete(PODS, name, self._namespace, grace=0)

    async def becomes(self, name: str, phase: str, *, ready: bool = False) -> None:
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
        await self._client.patch(PODS, name, {"status": status}, self._namespace, sub="status", style="strategic")

    async def wait(self, pod: Object, seconds: float = 60.0, stuck: float = 60.0) -> str:
        """Wait until a pod has moved to `us`. Return the final message."""
        meant, notes = Meant(pod, "us"), list[str]()
        world = await read_world(self._client, (), (pod,), meant, notes)
        preview = Preview(self._client, world, meant, Settings(), notes, SystemClock().now())
        return await Waiting(self._client, pod, world, preview, self.said.append).until_done((), "us", seconds, stuck)

    def begins(self, pod: Object, **seconds: float) -> asyncio.Task[str]:
        """Start the wait as a task."""
        return asyncio.ensure_future(self.wait(pod, **seconds))

    async def is_followed(self) -> None:
        """Wait until the command has observed the replacement."""
        await until(lambda: any("it is not Ready yet" in words for words in self.said))


def informers_of(monkeypatch: pytest.MonkeyPatch) -> list[Informer]:
    """Record the informers that are created from now on."""
    found: list[Informer] = []
    get = Informers.get

    def remembered(self: Informers, *args: Any, **fields: Any) -> Informer:
        found.append(get(self, *args, **fields))
        return found[-1]

    monkeypatch.setattr(Informers, "get", remembered)
    return found


@pytest_asyncio.fixture
async def trial(client: Client, namespace: str) -> Trial:
    made = await client.create(CONFIGMAPS, {"metadata": {"name": "maker"}}, namespace)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "maker", "uid": made["metadata"]["uid"]}
    return Trial(client, namespace, {**owner, "controller": True})


async def test_the_pod_that_is_made_in_its_place_is_waited_for(trial: Trial) -> None:
    waiting = trial.begins(await trial.make("web-1"))
    await trial.is_followed()
    await trial.end("web-1")
    await trial.make("web-2")
    await until(lambda: any(words.endswith("web-2 takes the place of web-1") for words in trial.said))
    await trial.becomes("web-2", "Running", ready=True)
    assert await waiting == "1 of 1 pods are where they should be"


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.parametrize("successor", ["web-2", "web-1"])
async def test_a_pod_that_goes_between_two_looks_at_it_is_followed(
    trial: Trial, client: Client, monkeypatch: pytest.MonkeyPatch, successor: str
) -> None:
    waiting = trial.begins(await trial.make("web-1"))
    await trial.is_followed()
    read = client.get_raw

    async def read_late(kind: Kind, name: str, namespace: str | None = None) -> bytes:
        if (kind, name) == (PODS, "web-1"):
            monkeypatch.setattr(client, "get_raw", read)
            await trial.end("web-1")
            await trial.make(successor)
        return await read(kind, name, namespace)

    monkeypatch.setattr(client, "get_raw", read_late)
    await until(lambda: any(words.endswith(f"{successor} takes the place of web-1") for words in trial.said))
    await trial.becomes(successor, "Running", ready=True)
    assert await waiting == "1 of 1 pods are where they should be"


async def test_a_pod_that_is_made_while_its_owner_is_read_is_followed(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"managedBy": "tests.flotilla.dev/nobody", "template": template}
    made = await client.create(JOBS, {"metadata": {"name": "maker"}, "spec": spec}, namespace)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "maker", "uid": made["metadata"]["uid"]}
    trial = Trial(client, namespace, {**owner, "controller": True})
    followed = informers_of(monkeypatch)
    waiting = trial.begins(await trial.make("web-1"))
    await trial.is_followed()
    read = client.get

    async def read_late(kind: Kind, name: str, namespace: str | None = None) -> Raw:
        if kind is JOBS:
            monkeypatch.setattr(client, "get", read)
            await trial.make("web-2")
            await until(lambda: any(pod.name == "web-2" for informer in followed for pod in informer.store))
        return await read(kind, name, namespace)

    monkeypatch.setattr(client, "get", read_late)
    await trial.end("web-1")
    await until(lambda: waiting.done() or "web-2 takes the place of web-1" in " ".join(trial.said))
    await trial.becomes("web-2", "Running", ready=True)
    assert await waiting == "1 of 1 pods are where they should be"


async def test_it_ends_where_nothing_is_made_in_its_place(trial: Trial) -> None:
    waiting = trial.begins(await trial.make("web-1"), stuck=1.0)
    await trial.is_followed()
    await trial.end("web-1")
    with pytest.raises(Failed, match="pod web-1 is gone, and for 1 s nothing has been made in its place"):
        await waiting


async def test_it_ends_where_nothing_makes_the_pod_again_or_that_has_finished(trial: Trial) -> None:
    waiting = trial.begins(await trial.make("alone", owned=False))
    await trial.is_followed()
    await trial.end("alone")
    with pytest.raises(Failed, match="pod alone is gone, and nothing makes it again"):
        await waiting
    done = await trial.make("done")
    await trial.becomes("done", "Succeeded")
    assert "pod done has finished where it was" in await trial.wait(done)


async def test_it_ends_when_its_time_is_over(trial: Trial) -> None:
    with pytest.raises(Failed, match=r"after 3 s 0 of 1 pods are where they should be: .*web-1: it is not Ready yet"):
        await trial.wait(await trial.make("web-1"), seconds=3.0)
