"""A target that does not start a pod, and whose agent does not answer whether the delegate has a node."""

from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, PODS
from agent.clusters.stores.live_reads import LiveReads
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.model.delegatepod import delegate
from agent.pods.feedback.controller import Feedback
from agent.scheduler import chaperon_writer
from agent.scheduler.controller import ProxyScheduler
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import chaperons, connected, create, elected
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
Raw = dict[str, Any]


async def only_chaperon(client: Client, namespace: str) -> Raw | None:
    return next(iter(await chaperons(client, namespace)), None)


async def test_a_delegate_that_has_a_node_is_not_given_up_and_one_without_is(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    has_node = LiveReads.has_node

    async def noted(self: LiveReads, target: Target, chaperon: Raw) -> bool:
        asked.append(await has_node(self, target, chaperon))
        return asked[-1]

    monkeypatch.setattr(LiveReads, "has_node", noted)
    # No agent answers, but a ClusterSummary left by another test may claim otherwise.
    monkeypatch.setattr(chaperon_writer, "answers", lambda *asked: False)
    monkeypatch.setattr(chaperon_writer, "_PLACED_SECONDS", 0.1)
    connection = load(str(cluster.kubeconfig))
    async with (
        running(cluster, Feedback, ProxyScheduler) as deps,
        connected(deps, client, namespace, eu=connection) as targets,
    ):
        await create(client, elected("web", namespace), [*targets.values()])
        first = await until(lambda: only_chaperon(client, namespace))
        assert first is not None
        made = delegate(first)
        made["spec"]["nodeName"] = "somewhere"
        await client.create(PODS, made)
        name, uid = first["metadata"]["name"], first["metadata"]["uid"]
        await client.patch(CHAPERONS, name, {"status": {"conditions": [NO_NODE]}}, namespace, sub="status")
        async with connected(deps, client, namespace, us=connection):
            await until(lambda: len(asked) > 2)
            assert set(asked) == {True}
            found = await only_chaperon(client, namespace)
            assert found is not None
            assert (found["metadata"]["uid"], found["metadata"].get("deletionTimestamp")) == (uid, None)
            await client.delete(PODS, name, namespace, grace=0)

            async def another() -> bool:
                found = await only_chaperon(client, namespace)
                return found is not None and found["metadata"]["uid"] != uid

            await until(another)
            assert asked[-1] is False
