"""Usage of delegates, from a target that serves metrics.k8s.io."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import CRDS, POD_METRICS
from agent.api.names import LABEL_PARENT_CLUSTER_UID
from agent.kube.client import Client
from tests.kubelet.scenes import Scene
from tests.waiting import unserved, until

Raw = dict[str, Any]

pytestmark = [pytest.mark.cluster]


async def test_usage_is_that_of_the_delegates_under_the_names_of_the_pods(scene: Scene) -> None:
    who = await scene.account(stats=["get"], metrics=["get"])
    status, text = await scene.ask("/stats/summary", who)
    assert (status, json.loads(text)["pods"]) == (200, [])
    async with metrics_served(scene.client):
        await measured(scene, cpu="250m")
        summary = await until(lambda: summarised(scene, who))
        (pod,) = summary["pods"]
        assert pod["podRef"]["name"] == "web"
        assert pod["podRef"]["uid"] == scene.web.proxy["metadata"]["uid"]
        assert pod["cpu"]["usageNanoCores"] == 250_000_000
        assert pod["memory"]["workingSetBytes"] == 64 << 20
        _, page = await scene.ask("/metrics/resource", who)
        labels = f'container="main",namespace="{scene.namespace}",pod="web"'
        assert f"container_cpu_usage_seconds_total{{{labels}}} 3.75 1767268800000" in page
        _, page = await scene.ask("/metrics/resource", who, target="c2")
        assert "web" not in page


async def summarised(scene: Scene, who: str) -> Raw | None:
    _, text = await scene.ask("/stats/summary", who)
    found: Raw = json.loads(text)
    return found if found["pods"] else None


@contextlib.asynccontextmanager
async def metrics_served(client: Client) -> AsyncIterator[None]:
    """Serve metrics.k8s.io with the content that the test writes."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }
    await client.create(CRDS, {"apiVersion": CRDS.api_version, "kind": CRDS.name, **crd})
    try:
        await until(lambda: listable(client))
        yield
    finally:
        await unserved(client, "pods.metrics.k8s.io")


async def listable(client: Client) -> bool:
    await client.list(POD_METRICS)
    return True


async def measured(scene: Scene, cpu: str) -> None:
    metrics = {
        "apiVersion": POD_METRICS.api_version,
        "kind": POD_METRICS.name,
        "metadata": {
            "name": scene.web.delegate["metadata"]["name"],
            "namespace": scene.namespace,
            "labels": {LABEL_PARENT_CLUSTER_UID: scene.deps.cluster_uid},
        },
        "timestamp": "2026-01-01T12:00:00Z",
        "window": "15s",
        "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "64Mi"}}],
    }
    await scene.client.create(POD_METRICS, metrics)
