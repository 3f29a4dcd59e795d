"""Pod lifecycle on fake kubelets, defined by stages.yaml."""

import pytest

from agent.api.kinds import PODS
from agent.kube.client import Client
from tests.e2e import manifests
from tests.waiting import until

pytestmark = pytest.mark.cluster


async def test_a_pod_that_a_fake_kubelet_starts_twice_runs_at_its_second_address(
    client: Client, namespace: str
) -> None:
    await client.create(PODS, manifests.pod("web", elect=None), namespace)

    async def runs_at() -> str:
        status = (await client.get(PODS, "web", namespace)).get("status") or {}
        return str(status["podIP"]) if status.get("phase") == "Running" and status.get("podIP") else ""

    first = await until(runs_at, what="it runs")
    # State after an answer that the fake kubelet has not received.
    unready = [{"type": "Ready", "status": "False"}]
    await client.patch(
        PODS, "web", {"status": {"phase": "Pending", "conditions": unready}}, namespace, sub="status", style="strategic"
    )
    second = await until(runs_at, what="it runs again")
    status = (await client.get(PODS, "web", namespace))["status"]
    assert status["podIPs"] == [{"ip": second}]
    assert second != first
