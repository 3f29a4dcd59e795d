"""Delegates that no scheduler in the target handles: its scheduler is missing, or a queue gates the pods."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import EVENTS, PODS
from agent.kube.client import Client
from agent.kube.config import load
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.scheduler.controller import ProxyScheduler
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import chaperons, connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.queues import GATE, gating, is_gated
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

ALL = (Chaperon, Feedback, ProxyScheduler)
TAKE_UP_SECONDS = 1.0


async def told(client: Client, namespace: str, name: str, *words: str) -> str:
    """Return why a pod waits, once its condition PodScheduled contains these words."""

    async def probe() -> str:
        message = str((condition_of(await client.get(PODS, name, namespace), "PodScheduled") or {}).get("message", ""))
        return message if all(each in message for each in words) else ""

    return await until(probe, what=f"{name} says {words}")


async def claim(client: Client, namespace: str, name: str) -> str:
    """Return the virtual node that a pod is claimed for."""
    annotations = (await client.get(PODS, name, namespace))["metadata"]["annotations"]
    return str(annotations.get(names.ANNOTATION_CLAIM, ""))


async def test_a_scheduler_that_targets_lack_is_told_on_the_pod_which_does_not_wander(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        running(cluster, *ALL, take_up=TAKE_UP_SECONDS, dwell=TAKE_UP_SECONDS / 2) as deps,
        connected(deps, client, namespace, eu=None, us=load(str(cluster.kubeconfig))) as targets,
    ):
        await create(client, elected("batch", namespace, schedulerName="volcano"), [*targets.values()])
        message = await told(client, namespace, "batch", "eu: no scheduler volcano", "us: no scheduler volcano")
        assert "multicluster/targets" in message
        events = await client.list(EVENTS, namespace, fields="involvedObject.name=batch,reason=FailedScheduling")
        assert any("no scheduler volcano has looked" in event["message"] for event in events)
        stays = await claim(client, namespace, "batch")
        await create(client, elected("later", namespace, schedulerName="volcano"), [*targets.values()])
        await told(client, namespace, "later", "eu: no scheduler volcano", "us: no scheduler volcano")
        await asyncio.sleep(4 * TAKE_UP_SECONDS)
        assert (await claim(client, namespace, "batch"), await claim(client, namespace, "later")) == (stays, "")
        # The scheduler is installed and handles the pod that has waited there.
        (chaperon,) = await chaperons(client, namespace)
        name = chaperon["metadata"]["name"]
        node = {"apiVersion": "v1", "kind": "Node", "name": "test-node-0"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace}}
        await client.create_raw(PODS, binding | {"target": node}, sub="binding")
        await pod_where(client, namespace, "batch", phase="Running", node=stays)

        async def follows() -> bool:
            return await claim(client, namespace, "later") == stays

        await until(follows, what="the other pod goes where the scheduler is")


async def test_no_scheduler_is_missed_where_no_agent_makes_the_delegate(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """Admiralty's agents hold no Flotilla lease, so their failure cannot be detected."""
    async with (
        running(cluster, Feedback, ProxyScheduler, take_up=TAKE_UP_SECONDS) as deps,
        connected(deps, client, namespace, us=load(str(cluster.kubeconfig))) as targets,
    ):
        await create(client, elected("batch", namespace, schedulerName="volcano"), [*targets.values()])
        message = await told(client, namespace, "batch", "us: nobody there has done anything about its PodChaperon")
        assert "the agent and the scheduler volcano run there" in message
        assert "no scheduler volcano" not in message


async def test_a_delegate_that_a_queue_of_the_target_gates_is_told_on_the_pod_and_tries_another_target(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        running(cluster, *ALL, take_up=4 * TAKE_UP_SECONDS) as deps,
        connected(deps, client, namespace, eu=None, us=load(str(cluster.kubeconfig))) as targets,
    ):
        async with gating(client, namespace):
            await create(client, elected("queued", namespace), [*targets.values()])
            await told(client, namespace, "queued", "its delegate has scheduling gates in the target", GATE)
            first = await claim(client, namespace, "queued")

        async def open_now() -> bool:
            return not await is_gated(client, namespace)

        await until(open_now)
        (other,) = {target.node_name for target in targets.values()} - {first}
        await pod_where(client, namespace, "queued", phase="Running", node=other)
