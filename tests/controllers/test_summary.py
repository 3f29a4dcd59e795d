"""The ClusterSummary of a real API server."""

import contextlib
from typing import Any

from agent.api.kinds import CLUSTER_SUMMARIES, NODES
from agent.base.metrics import REGISTRY
from agent.controllers.summary import SummaryRoom
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.sandbox import Cluster
from tests.controllers.rooms import eventually, running


def node(name: str, cpu: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu}},
    }


async def cpu(client: Client) -> int:
    return int((await client.get(CLUSTER_SUMMARIES, "singleton"))["capacity"].get("cpu", "0"))


async def test_the_summary_follows_the_nodes(cluster: Cluster, client: Client, namespace: str) -> None:
    with contextlib.suppress(NotFound):
        await client.delete(CLUSTER_SUMMARIES, "singleton")
    async with running(cluster, SummaryRoom):
        base = await eventually(lambda: cpu(client))
        virtual = {"virtual-kubelet.io/provider": "admiralty"}
        await client.create(NODES, node(f"{namespace}-virtual", "1000", **virtual))
        await client.create(NODES, node(f"{namespace}-real", "3"))
        await eventually(lambda: total(client, base + 3))

        version = (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"]["resourceVersion"]
        heartbeat = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "beat"}]}}
        await client.patch(NODES, f"{namespace}-real", heartbeat, sub="status")
        await client.patch(CLUSTER_SUMMARIES, "singleton", {"capacity": {"cpu": "1"}})
        await eventually(lambda: total(client, base + 3))
        again = await client.get(CLUSTER_SUMMARIES, "singleton")
        assert int(again["metadata"]["generation"]) >= 2
        assert again["metadata"]["resourceVersion"] != version

        await client.delete(CLUSTER_SUMMARIES, "singleton")
        await eventually(lambda: total(client, base + 3))
        for name in ("virtual", "real"):
            await client.delete(NODES, f"{namespace}-{name}")
        await eventually(lambda: total(client, base))


async def total(client: Client, want: int) -> bool:
    return await cpu(client) == want


async def test_heartbeats_are_not_written_home(cluster: Cluster, client: Client, namespace: str) -> None:
    name = f"{namespace}-beat"
    await client.create(NODES, node(name, "3"))
    async with running(cluster, SummaryRoom) as deps:
        informer = deps.local.informer(NODES, labels="virtual-kubelet.io/provider!=admiralty")
        await client.patch(NODES, name, {"metadata": {"labels": {f"{namespace}-first": "x"}}})
        await eventually(lambda: labelled(client, f"{namespace}-first"))
        before = writes()
        version = ""
        for beat in range(5):
            conditions = [{"type": "Ready", "status": "True", "reason": f"beat{beat}"}]
            patched = await client.patch(NODES, name, {"status": {"conditions": conditions}}, sub="status")
            version = patched["metadata"]["resourceVersion"]
        await eventually(lambda: seen(informer, name, version))
        # A change that matters, made afterwards, is the next and only write.
        await client.patch(NODES, name, {"metadata": {"labels": {f"{namespace}-second": "x"}}})
        await eventually(lambda: labelled(client, f"{namespace}-second"))
        assert writes() == before + 1
    await client.delete(NODES, name)


def writes() -> float:
    labels = {"cluster": "local", "method": "PATCH", "resource": "clustersummaries", "outcome": "200"}
    return REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0


async def seen(informer: Any, name: str, version: str) -> bool:
    obj = informer.store.get(("", name))
    return obj is not None and int(obj.version) >= int(version)


async def labelled(client: Client, key: str) -> dict[str, Any] | None:
    summary = await client.get(CLUSTER_SUMMARIES, "singleton")
    return summary if key in (summary["metadata"].get("labels") or {}) else None
