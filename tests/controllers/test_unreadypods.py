"""Pods of a target that falls silent, on one real API server that is source and target at once."""

import asyncio

import pytest

from agent.api.conditions import condition_of
from agent.api.kinds import PODS, SERVICES
from agent.controllers.chaperon.controller import Chaperon
from agent.controllers.feedback.controller import Feedback
from agent.controllers.unreadypods import UnreadyPodsRoom
from agent.controllers.unreadypods.controller import REASON
from agent.kube.client import Client
from agent.kube.config import load
from agent.model.servicemarks import native
from agent.sandbox import Cluster
from agent.scheduler.controller import ProxyScheduler
from tests.controllers.proxies import connected, create, elected, pod_where
from tests.controllers.rooms import running
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster

ROOMS = (Chaperon, Feedback, ProxyScheduler, UnreadyPodsRoom)


async def test_services_send_no_traffic_to_pods_of_a_silent_target_until_it_is_back(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async def is_ready(name: str, wanted: str, reason: str = "") -> None:
        async def probe() -> bool:
            found = condition_of(await client.get(PODS, name, namespace), "Ready") or {}
            return (found.get("status"), found.get("reason") or "") == (wanted, reason)

        await until(probe, what=f"Ready of {name} is {wanted}")

    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ROOMS, endpoints_grace=1.0) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        await client.create(SERVICES, native(service), namespace)
        for name in ("web", "other"):
            await create(client, elected(name, namespace), [*targets.values()])
        for name in ("web", "other"):
            await pod_where(client, namespace, name, phase="Running")
            await is_ready(name, "True")
        relay.cut()
        await is_ready("web", "False", REASON)
        await asyncio.sleep(0.5)
        await is_ready("other", "True")
        relay.mend()
        await is_ready("web", "True")
