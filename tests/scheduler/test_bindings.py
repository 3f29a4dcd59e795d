"""Bindings that the source's API server answers with a conflict, rightly or because etcd timed out."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import PODS
from tests.controllers.proxies import pod_where
from tests.scheduler.reserving import Open, Stage
from tests.waiting import until

Raw = dict[str, Any]
MANY = [f"web-{number}" for number in range(4)]
AGAIN_SECONDS = 1.0
"""Duration of four retries, in seconds."""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120), pytest.mark.parametrize("mode", ["ranked", "reserve"])]


def is_binding(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


def bindings(at: Stage) -> list[str]:
    """Return the paths of the requested bindings."""
    return sorted(path for method, path in at.near.requests if is_binding(method, path))


async def test_a_pod_of_whose_binding_etcd_said_nothing_is_bound_later_and_once(opened: Open, mode: str) -> None:
    async with opened(scheduling=mode) as at:
        failed: list[str] = []

        async def fail_once(method: str, path: str) -> Raw | None:
            if not is_binding(method, path) or path in failed:
                return None
            failed.append(path)
            # The message of `assignPod` in an API server.
            name = path.split("/")[-2]
            why = f'Operation cannot be fulfilled on pods/binding "{name}": etcdserver: request timed out'
            return {"kind": "Status", "apiVersion": "v1", "code": 409, "reason": "Conflict", "message": why}

        at.near.answer = fail_once
        await at.pods(*MANY)
        await at.settled(len(MANY))
        assert len(failed) == len(MANY)
        assert bindings(at) == sorted(2 * failed)


@pytest.mark.parametrize("where", ["where it should be", "elsewhere"])
async def test_a_pod_that_is_bound_already_is_not_bound_again(opened: Open, mode: str, where: str) -> None:
    async with opened(scheduling=mode) as at:
        taken: list[str] = []

        async def be_faster(method: str, path: str) -> None:
            """Bind the pod before the agent does, and hide this from the agent's watch."""
            if is_binding(method, path) and not taken:
                at.near.mute_watches()
                (pod,) = await at.proxies()
                claimed = pod["metadata"]["annotations"][names.ANNOTATION_CLAIM]
                taken.append(claimed if where != "elsewhere" else where)
                target = {"apiVersion": "v1", "kind": "Node", "name": taken[0]}
                binding = {"metadata": {"name": "web"}, "target": target}
                await at.client.create(PODS, binding, at.namespace, sub="binding")

        at.near.answer = be_faster
        await at.pods("web")
        await until(lambda: bindings(at) and taken)
        await asyncio.sleep(AGAIN_SECONDS)
        assert len(bindings(at)) == 1
        at.near.speak()
        if where != "elsewhere":
            assert set((await at.settled(1)).values()) <= {"us", "eu"}
        await asyncio.sleep(AGAIN_SECONDS)
        pod = await pod_where(at.client, at.namespace, "web", node=taken[0])
        assert pod["spec"]["nodeName"] == taken[0]
        assert len(bindings(at)) == 1
        await at.client.delete(PODS, "web", at.namespace, grace=0)
        await at.empty()
