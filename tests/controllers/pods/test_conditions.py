"""Conditions of proxy pods with several writers, compared with a plain pod; one API server is source and target."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import PODS
from agent.kube.client import Client
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.pods.live_changes.controller import LiveChanges
from agent.scheduler.controller import ProxyScheduler
from hack.lab.sandbox import Cluster
from tests.controllers.pods.test_livechanges import summary
from tests.controllers.proxies import chaperons, connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

ALL = (Chaperon, Feedback, ProxyScheduler, LiveChanges)
GATE, MARK = "example.com/lb-attached", "example.com/ConfigIssue"
QUARREL_SECONDS = 4.0


@contextlib.asynccontextmanager
async def proxy(cluster: Cluster, client: Client, namespace: str, **spec: Any) -> AsyncIterator[str]:
    """Run a proxy pod `web` in a target that accepts live changes; yield the name of its delegate."""
    async with (
        summary(client, **{names.ANNOTATION_AGENT_VERSION: "0.1.0"}),
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, me=None) as targets,
    ):
        await create(client, elected("web", namespace, **spec), [*targets.values()])
        await pod_where(client, namespace, "web", phase="Running")
        (chaperon,) = await chaperons(client, namespace)
        yield chaperon["metadata"]["name"]


async def condition(client: Client, namespace: str, pod: str, type: str) -> Raw:
    """Return the condition of a pod, {} if it has none."""
    found = await client.get(PODS, pod, namespace)
    return dict(find_condition(found["status"].get("conditions"), type) or {})


async def write(client: Client, namespace: str, pod: str, type: str, status: str | None) -> None:
    """Set a condition, or remove it (None), as its owning controller does."""
    told = {"status": status} if status else {"$patch": "delete"}
    patch = {"status": {"conditions": [{"type": type, **told}]}}
    await client.patch(PODS, pod, patch, namespace, sub="status", style="strategic")


async def says(client: Client, namespace: str, pod: str, type: str, status: str | None) -> None:
    """Wait until a pod has the condition with this status, or (None) does not have it."""

    async def probe() -> bool:
        return (await condition(client, namespace, pod, type)).get("status") == status

    await until(probe, what=f"{type} of {pod} is {status}")


async def test_a_readiness_gate_that_a_controller_in_the_source_sets_counts_as_on_a_plain_pod(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    gates = [{"conditionType": GATE}]
    plain = elected("plain", namespace, readinessGates=gates)
    del plain["metadata"]["annotations"]
    await client.create(PODS, plain)
    async with proxy(cluster, client, namespace, readinessGates=gates) as delegate:
        for status, ready in ((None, "False"), ("True", "True"), ("False", "False"), ("True", "True"), (None, "False")):
            for pod in ("plain", "web"):
                await write(client, namespace, pod, GATE, status)
                await says(client, namespace, pod, "Ready", ready)
                await says(client, namespace, pod, GATE, status)
            await says(client, namespace, delegate, GATE, status)


async def test_a_mark_of_a_controller_in_the_source_stays_and_one_of_the_target_comes_and_goes(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with proxy(cluster, client, namespace) as delegate:
        await write(client, namespace, "web", MARK, "True")
        await write(client, namespace, delegate, "target.example/Attached", "True")
        await says(client, namespace, "web", "target.example/Attached", "True")
        await write(client, namespace, delegate, "target.example/Attached", None)
        await says(client, namespace, "web", "target.example/Attached", None)
        await says(client, namespace, "web", MARK, "True")
        await says(client, namespace, delegate, MARK, None)


async def test_a_writer_that_contradicts_the_target_for_ever_is_answered_with_backoff(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with proxy(cluster, client, namespace):
        answers = 0

        async def contradict() -> None:
            nonlocal answers
            while True:
                if (await condition(client, namespace, "web", "Ready"))["status"] == "True":
                    answers += 1
                    await write(client, namespace, "web", "Ready", "False")
                await asyncio.sleep(0.01)

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(contradict(), QUARREL_SECONDS)
        # The feedback write, two immediate responses, and two more after 1 s and 2 s.
        assert 2 <= answers <= 5


async def test_the_observed_generation_follows_what_the_delegate_has_followed(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with proxy(cluster, client, namespace) as delegate:
        before = await client.get(PODS, "web", namespace)
        assert (before["metadata"]["generation"], before["status"]["observedGeneration"]) == (1, 1)
        image = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
        await client.patch(PODS, "web", image, namespace, style="strategic")

        async def observed() -> Raw | None:
            found = await client.get(PODS, "web", namespace)
            return found if found["status"]["observedGeneration"] == 2 else None

        assert (await until(observed) or {})["metadata"]["generation"] == 2
        (container,) = (await client.get(PODS, delegate, namespace))["spec"]["containers"]
        assert container["image"] == "busybox:2"
