"""Pods of a target that falls silent or refuses the agent; one real API server is both source and target."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.conditions import condition_of
from agent.api.kinds import PODS, SERVICES
from agent.clusters.target import State, Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.model.servicemarks import native
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.scheduler.controller import ProxyScheduler
from agent.services.unready_pods import UnreadyPodsController
from agent.services.unready_pods.controller import REASON
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.kube.relay import Relay, nothing
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

CONTROLLERS = (Chaperon, Feedback, ProxyScheduler, UnreadyPodsController)


STATUS: dict[int, Raw] = {
    401: {"reason": "Unauthorized", "message": "Unauthorized"},
    403: {"reason": "Forbidden", "message": "podchaperons is forbidden"},
    500: {"reason": "InternalError", "message": "etcdserver: no leader"},
}


class Place:
    """A target behind a relay with two running proxy pods; the Service `web` selects one of them."""

    def __init__(self, client: Client, namespace: str, relay: Relay, target: Target) -> None:
        self.client, self.namespace, self.relay, self.target = client, namespace, relay, target

    async def is_ready(self, name: str, wanted: str, reason: str = "") -> None:
        """Wait until the condition Ready of a proxy pod is as wanted."""

        async def probe() -> bool:
            found = condition_of(await self.client.get(PODS, name, self.namespace), "Ready") or {}
            return (found.get("status"), found.get("reason") or "") == (wanted, reason)

        await until(probe, what=f"Ready of {name} is {wanted}")

    async def answers(self, code: int) -> None:
        """Answer every request with an error, and wait until the agent has noticed."""

        async def answer(method: str, path: str) -> Raw:
            return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, **STATUS[code]}

        self.relay.answer = answer
        self.relay.mend()
        states = {401: State.UNAUTHORIZED, 403: State.FORBIDDEN, 500: State.FAILING}
        await until(lambda: self.target.record.state is states[code])


@contextlib.asynccontextmanager
async def place(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Place]:
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *CONTROLLERS, endpoints_grace=1.0) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        await client.create(SERVICES, native(service), namespace)
        found = Place(client, namespace, relay, targets["eu"])
        for name in ("web", "other"):
            await create(client, elected(name, namespace), [*targets.values()])
        for name in ("web", "other"):
            await pod_where(client, namespace, name, phase="Running")
            await found.is_ready(name, "True")
        yield found


async def test_services_send_no_traffic_to_pods_of_a_silent_target_until_it_is_back(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with place(cluster, client, namespace) as found:
        found.relay.cut()
        await found.is_ready("web", "False", REASON)
        await asyncio.sleep(0.5)
        await found.is_ready("other", "True")
        found.relay.mend()
        await found.is_ready("web", "True")


async def test_terminating_pods_of_a_silent_target_give_the_reason(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with place(cluster, client, namespace) as found:
        await client.delete(PODS, "web", namespace)
        await gone(lambda: client.get(PODS, "web", namespace))
        found.relay.cut()
        await client.delete(PODS, "other", namespace)
        await found.is_ready("other", "False", REASON)
        said = condition_of(await client.get(PODS, "other", namespace), "Ready") or {}
        assert "multicluster/lost=true" in said["message"]
        found.relay.mend()
        await gone(lambda: client.get(PODS, "other", namespace))


@pytest.mark.full(
    "Waits until a target counts as silent, twice; what its answers mean is pure and has tests of its own."
)
async def test_pods_of_a_target_that_refuses_the_agent_are_as_ready_as_before_it_was_silent(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with place(cluster, client, namespace) as found:
        for code in (401, 403):
            found.relay.cut()
            await found.is_ready("web", "False", REASON)
            await found.answers(code)
            await found.is_ready("web", "True")
        found.relay.answer = nothing
        await until(lambda: found.target.ready)
        await found.is_ready("web", "True")


@pytest.mark.full("Waits until a target counts as silent; what its answers mean is pure and has tests of its own.")
async def test_a_target_whose_api_server_has_failed_is_silent_however_often_it_becomes_unreachable(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with place(cluster, client, namespace) as found:
        await found.answers(500)
        await found.is_ready("web", "False", REASON)
        since = found.target.record.unanswered_since
        found.relay.cut()
        await until(lambda: found.target.record.state is State.UNREACHABLE)
        await found.answers(500)
        assert found.target.record.unanswered_since == since
        await found.is_ready("web", "False", REASON)
        found.relay.answer = nothing
        await found.is_ready("web", "True")
