"""Node usage in the ClusterSummary of a real API server that serves metrics.k8s.io."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from agent.api.kinds import CLUSTER_SUMMARIES, CRDS, NODE_METRICS, NODES
from agent.api.names.ocm import USED
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.quantity import Quantity
from agent.targets.summary import SummaryController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.targets.test_summary import node, settled, writes
from tests.waiting import unserved, until

Raw = dict[str, Any]
SOON = {"summary_used": True, "summary_used_interval": 0.1, "discovery_interval": 0.2}


@contextlib.asynccontextmanager
async def metrics_served(client: Client) -> AsyncIterator[None]:
    """Serve metrics.k8s.io as a CRD, with the values that the test writes."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.name,
        "metadata": {
            "name": "nodes.metrics.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": NODE_METRICS.group,
            "names": {"plural": "nodes", "singular": "node", "kind": "NodeMetrics", "listKind": "NodeMetricsList"},
            "scope": "Cluster",
            "versions": [
                {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }
    await client.create(CRDS, crd)
    try:
        await until(lambda: listable(client))
        yield
    finally:
        await unserved(client, "nodes.metrics.k8s.io")


async def listable(client: Client) -> bool:
    with contextlib.suppress(NotFound):
        await client.list(NODE_METRICS)
        return True
    return False


def metrics(name: str, cpu: str) -> Raw:
    head = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.name, "metadata": {"name": name}}
    return head | {"timestamp": "2026-01-01T12:00:00Z", "window": "10s", "usage": {"cpu": cpu, "memory": "1Gi"}}


async def used(client: Client) -> Raw | None:
    """Return the published usage; None if it is not published."""
    found = await client.get(CLUSTER_SUMMARIES, "singleton")
    text = found["metadata"].get("annotations", {}).get(USED)
    return dict(json.loads(text)) if text is not None else None


def cores(amounts: Raw) -> int:
    return Quantity.of(amounts.get("cpu", 0)).value


def asked() -> float:
    labels = {"cluster": "local", "method": "GET", "resource": "nodes", "outcome": "200"}
    return REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0


async def test_what_nodes_use_is_told_when_it_moves(cluster: Cluster, client: Client, namespace: str) -> None:
    name = f"{namespace}-busy"
    # Larger than the other nodes, which have no measurements.
    await client.create(NODES, node(name, "1000"))
    others = sum(cores(each["status"]["allocatable"]) for each in await client.list(NODES)) - 1000
    async with running(cluster, SummaryController, **SOON), metrics_served(client):
        await client.create(NODE_METRICS, metrics(name, "100"))

        async def told(cpu: int) -> bool:
            return cores((await used(client)) or {}) == cpu + others

        await until(lambda: told(100))
        before, rounds = await settled(), asked()
        await client.patch(NODE_METRICS, name, {"usage": {"cpu": "110"}})
        await until(lambda: _at_least(rounds + 3))
        assert (await told(100), writes()) == (True, before), "it moved by 1 %"
        await client.patch(NODE_METRICS, name, {"usage": {"cpu": "300"}})
        await until(lambda: told(300))
    await client.delete(NODES, name)


async def _at_least(rounds: float) -> bool:
    return asked() >= rounds


async def test_what_cannot_be_measured_any_more_is_told_no_longer(cluster: Cluster, client: Client) -> None:
    async with running(cluster, SummaryController, **SOON):
        async with metrics_served(client):
            await until(lambda: used(client))
        await until(lambda: _nothing_used(client))


async def _nothing_used(client: Client) -> bool:
    return await used(client) is None


def asking() -> bool:
    return any("what nodes use" in task.get_name() for task in asyncio.all_tasks())


async def test_nobody_is_asked_and_nothing_told_unless_it_is_wanted(cluster: Cluster, client: Client) -> None:
    async with metrics_served(client):
        for settings in ({}, {"summary_detail": "sums", **SOON}):
            async with running(cluster, SummaryController, **settings):
                await until(lambda: client.get(CLUSTER_SUMMARIES, "singleton"))
                await client.patch(CLUSTER_SUMMARIES, "singleton", {"metadata": {"annotations": {USED: "{}"}}})
                await until(lambda: _nothing_used(client))
                assert not asking()
        async with running(cluster, SummaryController, **SOON):
            await until(lambda: used(client))
            assert asking()
