"""Delegates whose PriorityClass does not exist in their cluster, on a real API server."""

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, EVENTS, PODS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.pods.chaperon.controller import Chaperon
from hack.lab.sandbox import Cluster
from tests.controllers.pods.test_chaperon import chaperon, status
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

REASON = "PriorityClassMissing"


@pytest.mark.parametrize("restart", ["Always", "Never"])
async def test_a_delegate_runs_without_a_class_that_there_is_not_and_says_so(
    cluster: Cluster, client: Client, namespace: str, restart: str
) -> None:
    async with running(cluster, Chaperon):
        meant = chaperon("web", priorityClassName="urgent", priority=1000, restartPolicy=restart)
        await client.create(CHAPERONS, meant, namespace)

        async def told() -> str | None:
            events = await client.list(EVENTS, namespace)
            of = (each for each in events if each["reason"] == REASON and each["involvedObject"]["kind"] == "Pod")
            return next((each["message"] for each in of), None)

        message = await until(told)
        pod = await client.get(PODS, "web", namespace)
        await status(client, namespace, "web", phase="Running" if restart == "Always" else "Succeeded")
    assert "priorityClassName" not in pod["spec"]
    assert pod["spec"]["priority"] == 0
    assert message is not None
    assert "no PriorityClass urgent" in message
    assert "multicluster/priority-class=require" in message


async def test_a_pod_that_requires_its_class_is_refused_without_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    meant = chaperon("web", priorityClassName="urgent")
    meant["metadata"]["annotations"][names.SHORT_PREFIX + names.PRIORITY_CLASS] = "require"
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, meant, namespace)

        async def refusal() -> str | None:
            conditions = (await client.get(CHAPERONS, "web", namespace)).get("status", {}).get("conditions", [])
            return next((each["message"] for each in conditions if each["reason"] == "Refused"), None)

        assert "no PriorityClass with name urgent was found" in (await until(refusal) or "")
        with pytest.raises(NotFound):
            await client.get(PODS, "web", namespace)
        assert not [each for each in await client.list(EVENTS, namespace) if each["reason"] == REASON]
