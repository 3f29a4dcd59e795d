"""The ClusterSummary of a real API server."""

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest

from agent.api.kinds import CLUSTER_CLAIMS, CLUSTER_PROPERTIES, CLUSTER_SUMMARIES, CRDS, EVENTS, NODES, Kind
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.targets.summary import SummaryController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.waiting import unserved, until


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
    async with running(cluster, SummaryController):
        base = await until(lambda: cpu(client))
        virtual = {"virtual-kubelet.io/provider": "admiralty"}
        await client.create(NODES, node(f"{namespace}-virtual", "1000", **virtual))
        await client.create(NODES, node(f"{namespace}-real", "3"))
        await until(lambda: total(client, base + 3))

        version = (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"]["resourceVersion"]
        heartbeat = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "beat"}]}}
        await client.patch(NODES, f"{namespace}-real", heartbeat, sub="status")
        await client.patch(CLUSTER_SUMMARIES, "singleton", {"capacity": {"cpu": "1"}})
        await until(lambda: total(client, base + 3))
        again = await client.get(CLUSTER_SUMMARIES, "singleton")
        assert int(again["metadata"]["generation"]) >= 2
        assert again["metadata"]["resourceVersion"] != version

        await client.delete(CLUSTER_SUMMARIES, "singleton")
        await until(lambda: total(client, base + 3))
        for name in ("virtual", "real"):
            await client.delete(NODES, f"{namespace}-{name}")
        await until(lambda: total(client, base))


async def total(client: Client, want: int) -> bool:
    return await cpu(client) == want


async def test_heartbeats_are_not_written_home(cluster: Cluster, client: Client, namespace: str) -> None:
    name = f"{namespace}-beat"
    await client.create(NODES, node(name, "3"))
    await beat(client, name, "first")
    # The node has a taint, which the summary includes, until the node controller observes that it is ready.
    await until(lambda: untainted(client, name))
    async with running(cluster, SummaryController) as deps:
        informer = deps.local.informer(NODES, labels="virtual-kubelet.io/provider!=admiralty")
        await client.patch(NODES, name, {"metadata": {"labels": {f"{namespace}-first": "x"}}})
        await until(lambda: labelled(client, f"{namespace}-first"))
        before = await settled()
        for number in range(5):
            version = await beat(client, name, f"beat{number}")
        await until(lambda: seen(informer, name, version))
        # A relevant change that is made afterwards is the next and only write.
        await client.patch(NODES, name, {"metadata": {"labels": {f"{namespace}-second": "x"}}})
        await until(lambda: labelled(client, f"{namespace}-second"))
        assert await settled() == before + 1
    await client.delete(NODES, name)


async def beat(client: Client, name: str, reason: str) -> str:
    """Report a node as ready; return its resource version."""
    conditions = [{"type": "Ready", "status": "True", "reason": reason}]
    patched = await client.patch(NODES, name, {"status": {"conditions": conditions}}, sub="status")
    return str(patched["metadata"]["resourceVersion"])


async def untainted(client: Client, name: str) -> bool:
    return not (await client.get(NODES, name))["spec"].get("taints")


async def settled() -> float:
    """Return the number of writes of the summary once it no longer grows."""
    found = -1.0
    while found != writes():
        found = writes()
        await asyncio.sleep(0.5)
    return found


def writes() -> float:
    labels = {"cluster": "local", "method": "PATCH", "resource": "clustersummaries", "outcome": "200"}
    return REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0


async def seen(informer: Any, name: str, version: str) -> bool:
    obj = informer.store.get(("", name))
    return obj is not None and int(obj.version) >= int(version)


async def labelled(client: Client, key: str) -> dict[str, Any] | None:
    summary = await client.get(CLUSTER_SUMMARIES, "singleton")
    return summary if key in (summary["metadata"].get("labels") or {}) else None


def definition(kind: Kind, *, stored: str = "") -> dict[str, Any]:
    value = {"type": "object", "properties": {"value": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": value}}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.name,
        "metadata": {
            "name": str(kind),
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/2149"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Cluster",
            "names": {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()},
            "versions": [
                {"name": version, "served": not stored or version == stored, "storage": version == (stored or version)}
                | {"schema": {"openAPIV3Schema": schema}}
                for version in dict.fromkeys((kind.version, stored or kind.version))
            ],
        },
    }


def fact(kind: Kind, name: str, value: str) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": {"value": value}}


async def property_label(client: Client, key: str) -> str | None:
    labels: dict[str, str] = (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"].get("labels") or {}
    return labels.get(key)


async def without(client: Client, key: str) -> bool:
    return await property_label(client, key) is None


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_cluster_properties_of_every_version_and_claims_are_told_while_they_are_served(
    cluster: Cluster, client: Client
) -> None:
    settings = {"cluster_property": ("tier=gold", "example.com/site=7"), "discovery_interval": 0.3}
    async with running(cluster, SummaryController, **settings) as deps:
        await until(lambda: property_label(client, "tier"))
        watched = {str(informer.kind) for informer in deps.local.informers}
        assert not watched & {str(CLUSTER_PROPERTIES), str(CLUSTER_CLAIMS)}, "nothing is watched that is not served"
        for kind, name, value in (
            (CLUSTER_PROPERTIES, "cluster.clusterset.k8s.io", "c1"),
            (CLUSTER_CLAIMS, "platform.open-cluster-management.io", "AWS"),
        ):
            await client.create(CRDS, definition(kind))
            await until(lambda kind=kind, name=name, value=value: client.create(kind, fact(kind, name, value)))
            await until(lambda name=name: property_label(client, name))
        await client.create(CLUSTER_CLAIMS, fact(CLUSTER_CLAIMS, "tier", "silver"))
        body = {"spec": {"value": "c2"}}
        await client.patch(CLUSTER_PROPERTIES, "cluster.clusterset.k8s.io", body)
        await until(lambda: labelled_with(client, "cluster.clusterset.k8s.io", "c2"))
        assert await property_label(client, "tier") == "gold", "settings win"
        assert await property_label(client, "example.com/site") == "7"
        await client.patch(CRDS, str(CLUSTER_PROPERTIES), definition(CLUSTER_PROPERTIES, stored="v1beta1"))
        newer = replace(CLUSTER_PROPERTIES, version="v1beta1")
        body = {"spec": {"value": "c3"}}
        await until(lambda: client.patch(newer, "cluster.clusterset.k8s.io", body))
        await until(lambda: labelled_with(client, "cluster.clusterset.k8s.io", "c3"))
        await client.patch(newer, "cluster.clusterset.k8s.io", {"spec": {"value": "no label"}})
        await until(lambda: without(client, "cluster.clusterset.k8s.io"))
        hidden = fact(CLUSTER_CLAIMS, "internal", "x")
        hidden["metadata"]["labels"] = {"open-cluster-management.io/spoke-only": ""}
        await client.create(CLUSTER_CLAIMS, hidden)
        await client.create(CLUSTER_CLAIMS, fact(CLUSTER_CLAIMS, "cluster.clusterset.k8s.io", "c1"))
        await client.create(CLUSTER_CLAIMS, fact(CLUSTER_CLAIMS, "owner", "team a"))
        told = await until(lambda: claims(client, "owner"))
        assert told["cluster.clusterset.k8s.io"] == "no label", "of the same name, a ClusterProperty counts"
        assert (told["platform.open-cluster-management.io"], told["tier"]) == ("AWS", "gold")
        assert "internal" not in told
        for kind in (CLUSTER_PROPERTIES, CLUSTER_CLAIMS):
            await unserved(client, kind)
        await until(lambda: without(client, "platform.open-cluster-management.io"))


async def claims(client: Client, name: str) -> dict[str, str] | None:
    annotations = (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"].get("annotations") or {}
    told: dict[str, str] = json.loads(annotations.get("multicluster/claims", "{}"))
    return told if name in told else None


async def labelled_with(client: Client, key: str, value: str) -> bool:
    return await property_label(client, key) == value


async def test_claims_beyond_the_twentieth_are_left_out_and_an_event_says_so(cluster: Cluster, client: Client) -> None:
    many = tuple(f"claim-{number:02}=x" for number in range(22))
    async with running(cluster, SummaryController, cluster_property=many):
        event = await until(lambda: told_of(client, "CustomClusterClaimsTruncated"))
        assert event["message"] == (
            "22 cluster claims are found. It exceeds the max number of custom cluster claims (20)."
            " 2 cluster claims are discarded."
        )
        assert len(await until(lambda: claims(client, "claim-19"))) == 20


async def told_of(client: Client, reason: str) -> dict[str, Any]:
    found = await client.list(EVENTS, "default")
    return next((each for each in found if each["reason"] == reason), {})


async def test_an_administrator_may_tell_less(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, SummaryController):
        await until(lambda: shaped(client, True))
    async with running(cluster, SummaryController, summary_detail="minimal"):
        await until(lambda: shaped(client, False))
        assert await property_label(client, "kubernetes.io/os") == "linux"
    async with running(cluster, SummaryController, summary_detail="sums"):
        await until(lambda: without(client, "kubernetes.io/os"))
        assert await cpu(client) > 0


async def shaped(client: Client, wanted: bool) -> bool:
    annotations = (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"].get("annotations") or {}
    return ("multicluster/node-shapes" in annotations) == wanted
