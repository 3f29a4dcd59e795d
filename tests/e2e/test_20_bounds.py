"""Promise 20: pods respect the limits of targets, prefer the source while it has capacity, and do not block
each other."""

import asyncio
import functools
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.api import names
from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, PODS, RESOURCE_QUOTAS, TARGETS, Kind
from agent.clusters.target_info import shapes
from agent.kube.store import Object
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.metricsapi import metrics_api

Raw = dict[str, Any]

PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
AUTOSCALERS = Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")

NODES_EACH = 5
BIG_CPU = 20
"""Cores of a big pod: a node of 32 has no capacity for a second one."""
WEIGHT = names.SHORT_PREFIX + names.WEIGHT


def big() -> list[Raw]:
    """Return containers that need most of a node."""
    return [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": f"{BIG_CPU}"}}}]


async def bound(fleet: Fleet, namespace: str, target: str, **limits: str) -> None:
    """Set `spec.limits` of a Target."""
    await fleet.source.patch(TARGETS, target, {"spec": {"limits": limits}}, namespace)


async def waiting(fleet: Fleet, namespace: str, app: str, count: int, *words: str) -> list[Raw]:
    """Wait until exactly `count` pods of an app are unschedulable with these words in the message; return them."""

    async def told() -> list[Raw]:
        messages = [(pod, condition(pod, "PodScheduled")) for pod in await fleet.pods(namespace, app)]
        found = [
            pod
            for pod, said in messages
            if said.get("status") == "False" and all(word in said.get("message", "") for word in words)
        ]
        return found if len(found) == count else []

    return await fleet.until(f"{count} pods of {app} say {words}", told, about=namespace)


async def sent(fleet: Fleet, namespace: str, count: int) -> None:
    """Wait until `count` pods have a chaperon in us; fail if there are more."""

    async def found() -> int:
        return len(await fleet.clients["us"].list(CHAPERONS, namespace))

    async def enough() -> bool:
        return await found() >= count

    await fleet.until(f"{count} pods are sent", enough, about=namespace)
    assert await found() == count


async def places(fleet: Fleet, namespace: str, app: str) -> dict[str, int]:
    """Return the number of an app's pods by target."""
    targets = {names.virtual_node(namespace, target): target for target in fleet.names}
    return dict(Counter(targets[pod["spec"]["nodeName"]] for pod in await fleet.pods(namespace, app)))


async def roomy(fleet: Fleet, cluster: str) -> int:
    """Return the number of nodes with capacity for a big pod, from the cluster's summary."""
    raw = await fleet.clients[cluster].get_raw(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    told = shapes(Object(CLUSTER_SUMMARIES, raw), {})
    wanted = BIG_CPU * 10**9
    return sum(free.count for shape in told for free in shape.free or () if free.amounts.get("cpu", 0) >= wanted)


async def room(fleet: Fleet, *clusters: str, nodes: int = NODES_EACH) -> None:
    """Wait until the summaries of clusters report `nodes` nodes with capacity for a big pod."""

    async def told() -> bool:
        return [await roomy(fleet, cluster) for cluster in clusters] == [nodes] * len(clusters)

    await fleet.until(f"{clusters} have {nodes} empty nodes", told)


async def test_a_limit_of_a_target_refuses_what_is_beyond_until_it_is_raised(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        await bound(fleet, namespace, "us", pods="3")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 5), namespace)
        await waiting(fleet, namespace, "web", 2, "us: limit pods of the target reached (3 of 3)")
        await sent(fleet, namespace, 3)
        await bound(fleet, namespace, "us", pods="5")
        await fleet.running(namespace, "web", 5)
        fleet.census.check(namespace, at_most=5)


@pytest.mark.full("Scheduler tests on API servers cover the same bound.")
async def test_what_waits_at_a_limit_comes_in_when_another_pod_has_ended(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        await bound(fleet, namespace, "us", pods="2")
        for number in range(2):
            await fleet.source.create(PODS, manifests.pod(f"old-{number}"), namespace)
            await fleet.running(namespace, f"old-{number}", 1)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("new", 2), namespace)
        await waiting(fleet, namespace, "new", 2, "limit pods of the target reached (2 of 2)")
        for number in range(2):
            await fleet.source.delete(PODS, f"old-{number}", namespace)
        await fleet.running(namespace, "new", 2)


@pytest.mark.full("Scheduler tests on API servers cover the same bound.")
async def test_a_quota_of_the_targets_namespace_counts_before_anything_is_sent(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        quota: Raw = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
        await fleet.clients["us"].create(RESOURCE_QUOTAS, quota, namespace)

        async def counted() -> bool:
            found = await fleet.clients["us"].get(RESOURCE_QUOTAS, "few", namespace)
            return bool(found.get("status", {}).get("hard"))

        await fleet.until("the quota counts", counted, about=namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 4), namespace)
        # Pods may be counted twice for a moment; if only the figures change, the message is updated after half a
        # minute.
        pods = await waiting(fleet, namespace, "web", 2, "us: exceeded quota few: pods (", " of 2)")
        await sent(fleet, namespace, 2)
        assert not any(names.ANNOTATION_ATTEMPTS in pod["metadata"]["annotations"] for pod in pods)
        await fleet.clients["us"].patch(RESOURCE_QUOTAS, "few", {"spec": {"hard": {"pods": "4"}}}, namespace)
        await fleet.running(namespace, "web", 4)
        fleet.census.check(namespace, at_most=4)


async def prefer_home_by_weight(fleet: Fleet, namespace: str) -> Raw:
    """Give the Target of the source a weight; return no pod annotations."""
    target = manifests.ours("Target", "cd", namespace, {"self": True})
    target["metadata"]["annotations"] = {WEIGHT: "100"}
    await apply(fleet.source, TARGETS, target)
    return {}


async def prefer_home_by_affinity(fleet: Fleet, namespace: str) -> Raw:
    """Return pod annotations that prefer the source by node affinity."""
    await apply(fleet.source, TARGETS, manifests.ours("Target", "cd", namespace, {"self": True}))
    here = {"matchExpressions": [{"key": manifests.REGION, "operator": "In", "values": ["cd"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": here}]}
    return {names.PREFIX + names.PROXY_CONSTRAINTS: json.dumps({"affinity": {"nodeAffinity": preferred}})}


async def burst(fleet: Fleet, prefer: Callable[[Fleet, str], Awaitable[Raw]]) -> None:
    """Fill the source, overflow into targets, and return to the source."""
    await room(fleet, *fleet.names)
    async with fleet.namespace() as namespace:
        annotations = await prefer(fleet, namespace)
        await fleet.ready(namespace, "cd")
        web = manifests.deployment("web", 4, containers=big())
        web["spec"]["template"]["metadata"]["annotations"] |= annotations
        await fleet.source.create(DEPLOYMENTS, web, namespace)
        try:
            await fill_and_come_home(fleet, namespace)
        finally:
            await fleet.source.delete(DEPLOYMENTS, "web", namespace, propagation="Foreground")


async def fill_and_come_home(fleet: Fleet, namespace: str) -> None:
    """Scale from 4 pods in the source until it is full, beyond its capacity, and back."""
    scale = functools.partial(scaled, fleet, namespace)
    await scale(4)
    assert await places(fleet, namespace, "web") == {"cd": 4}
    await room(fleet, "cd", nodes=1)
    await scale(9)
    found = await places(fleet, namespace, "web")
    assert found.pop("cd") == NODES_EACH
    assert sum(found.values()) == 4
    for pod in await fleet.pods(namespace, "web"):
        if pod["spec"]["nodeName"] == names.virtual_node(namespace, "cd"):
            cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}}}
            await fleet.source.patch(PODS, pod["metadata"]["name"], cost, namespace)
    await scale(6)
    assert (await places(fleet, namespace, "web"))["cd"] == 2
    await room(fleet, "cd", nodes=3)
    await scale(9)
    assert (await places(fleet, namespace, "web"))["cd"] == NODES_EACH


async def scaled(fleet: Fleet, namespace: str, replicas: int) -> None:
    """Scale the Deployment, and wait until exactly `replicas` pods run."""
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, namespace)
    await fleet.running(namespace, "web", replicas)


@pytest.mark.full("Scheduler tests on API servers cover the same bound.")
async def test_pods_stay_home_by_weight_until_it_is_full_and_come_home_when_there_is_room(fleet: Fleet) -> None:
    await burst(fleet, prefer_home_by_weight)


@pytest.mark.seldom
async def test_pods_stay_home_by_affinity_until_it_is_full_and_come_home_when_there_is_room(fleet: Fleet) -> None:
    await burst(fleet, prefer_home_by_affinity)


@pytest.mark.full("Scheduler tests on API servers cover the same bound.")
async def test_an_autoscaler_scales_a_federated_deployment_up_and_down(fleet: Fleet, namespace: str) -> None:
    async with metrics_api(fleet, namespace) as metrics:
        metrics.cpu = "10m"
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
        await fleet.running(namespace, "web", 2)
        usage = {"type": "Utilization", "averageUtilization": 100}
        at_once = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 10, "periodSeconds": 15}]}
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 8,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": usage}}],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        }
        metrics.cpu = "40m"
        await fleet.source.create(AUTOSCALERS, {"metadata": {"name": "web"}, "spec": spec}, namespace)
        await fleet.running(namespace, "web", 8, seconds=120)
        assert set(await places(fleet, namespace, "web")) <= {"us", "eu"}
        metrics.cpu = "1m"
        await fleet.running(namespace, "web", 2, seconds=120)
        await fleet.source.delete(AUTOSCALERS, "web", namespace)
        await fleet.agree(namespace)


@pytest.mark.full("Scheduler tests on API servers cover the same bound.")
async def test_the_only_place_goes_to_the_pod_of_higher_priority(fleet: Fleet) -> None:
    urgent = {"metadata": {"name": "e2e-urgent"}, "value": 1000, "preemptionPolicy": "Never"}
    urgent |= {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for cluster in ("cd", "us"):
        await apply(fleet.clients[cluster], PRIORITY_CLASSES, urgent)
    try:
        async with fleet.namespace(targets=("us",)) as namespace:
            await bound(fleet, namespace, "us", pods="1")
            await fleet.source.create(PODS, manifests.pod("first"), namespace)
            await fleet.running(namespace, "first", 1)
            for number in range(3):
                await fleet.source.create(PODS, manifests.pod(f"low-{number}"), namespace)
                await waiting(fleet, namespace, f"low-{number}", 1, "limit pods of the target reached")
            await fleet.source.create(PODS, manifests.pod("high", priorityClassName="e2e-urgent"), namespace)
            await waiting(fleet, namespace, "high", 1, "limit pods of the target reached")
            await fleet.source.delete(PODS, "first", namespace)
            await fleet.running(namespace, "high", 1)
            for number in range(3):
                (low,) = await fleet.pods(namespace, f"low-{number}")
                assert "nodeName" not in low["spec"]
            fleet.census.check(namespace, at_most=2, may_end=True)
    finally:
        for cluster in ("cd", "us"):
            await fleet.clients[cluster].delete(PRIORITY_CLASSES, "e2e-urgent")


async def test_fifty_pods_that_fit_nowhere_hold_up_no_other(fleet: Fleet, namespace: str) -> None:
    huge = [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "64"}}}]
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("huge", 50, containers=huge), namespace)
    await waiting(fleet, namespace, "huge", 50, "0/2 targets are available")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("small", 30), namespace)
    await fleet.running(namespace, "small", 30)
    await waiting(fleet, namespace, "huge", 50, "us: ", "eu: ", "nsufficient cpu")


@pytest.mark.seldom
async def test_a_pod_without_room_waits_in_one_target_and_moves_when_another_has_room(
    fleet: Fleet, namespace: str
) -> None:
    await room(fleet, "us", "eu")
    for number in range(2 * NODES_EACH):
        await fleet.source.create(PODS, manifests.pod(f"fill-{number}", containers=big()), namespace)
    for number in range(2 * NODES_EACH):
        await fleet.running(namespace, f"fill-{number}", 1)
    await room(fleet, "us", "eu", nodes=0)
    await fleet.source.create(PODS, manifests.pod("late", containers=big()), namespace)
    (late,) = await waiting(fleet, namespace, "late", 1, "0/2 targets are available", "insufficient cpu")
    before = await candidate(fleet, namespace, late)
    here = before[0]
    # Longer than the minimum dwell time: without capacity in the other target, the candidate must not move.
    await asyncio.sleep(6)
    assert await candidate(fleet, namespace, late) == before
    other = names.virtual_node(namespace, "eu" if here == "us" else "us")
    leaving = next(pod for pod in await fleet.pods(namespace) if pod["spec"].get("nodeName") == other)
    await fleet.source.delete(PODS, leaving["metadata"]["name"], namespace)
    (late,) = await fleet.running(namespace, "late", 1)
    assert late["spec"]["nodeName"] == other


async def candidate(fleet: Fleet, namespace: str, pod: Raw) -> tuple[str, str]:
    """Wait for a chaperon of a pod; return its cluster and UID."""
    selector = f"{names.LABEL_PARENT_UID}={pod['metadata']['uid']}"

    async def found() -> tuple[str, str] | None:
        for name, client in fleet.clients.items():
            for chaperon in await client.list(CHAPERONS, namespace, labels=selector):
                return name, chaperon["metadata"]["uid"]
        return None

    where = await fleet.until("the pod has a candidate", found, about=namespace)
    assert where is not None
    return where


@pytest.mark.full("Scheduler tests on API servers cover the same bound.")
async def test_a_gated_pod_is_sent_nowhere_until_its_gates_are_open(fleet: Fleet, namespace: str) -> None:
    gated = manifests.deployment("web", 3, schedulingGates=[{"name": "e2e.test/gate"}])
    await fleet.source.create(DEPLOYMENTS, gated, namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("open", 3), namespace)
    await fleet.running(namespace, "open", 3)
    pods = await fleet.pods(namespace, "web")
    assert [condition(pod, "PodScheduled").get("reason") for pod in pods] == ["SchedulingGated"] * 3
    assert len(await fleet.delegates(namespace)) == 3
    for pod in pods:
        await fleet.source.patch(PODS, pod["metadata"]["name"], {"spec": {"schedulingGates": []}}, namespace)
    await fleet.running(namespace, "web", 3)
    await fleet.agree(namespace)


async def measured(fleet: Fleet) -> dict[tuple[str, str], float]:
    """Return the scheduling metrics of the source's agent: values by name and label values."""
    text = await fleet.metrics(fleet.names[0])
    return {
        (sample.name.removeprefix("flotilla_scheduling_"), "/".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("flotilla_scheduling_") and "le" not in sample.labels
    }


@pytest.mark.full("Scheduler tests on API servers cover the same bound.")
async def test_metrics_tell_phases_attempts_refusals_and_pods_in_flight(fleet: Fleet, namespace: str) -> None:
    async def landed() -> bool:
        return (await measured(fleet))["pods_in_flight", ""] == 0

    await fleet.until("no pod is in flight", landed, about=namespace)
    before = await measured(fleet)
    await bound(fleet, namespace, "us", pods="2")
    await bound(fleet, namespace, "eu", pods="2")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 6), namespace)
    await waiting(fleet, namespace, "web", 2, "us: limit pods", "eu: limit pods")

    async def two_wait() -> bool:
        return (await measured(fleet))["pods_in_flight", ""] == 2

    await fleet.until("two pods are in flight", two_wait, about=namespace)
    during = await measured(fleet)
    await bound(fleet, namespace, "eu", pods="4")
    await fleet.running(namespace, "web", 6)
    await fleet.until("no pod is in flight any more", landed, about=namespace)
    after = await measured(fleet)
    grown = {key: value - before.get(key, 0) for key, value in after.items()}
    for phase in ("queue", "candidate", "bind"):
        assert grown["phase_seconds_count", phase] == 6, phase
        assert grown["phase_seconds_sum", phase] > 0, phase
    assert grown["phase_seconds_count", "rank"] >= 6
    assert grown.get(("phase_seconds_count", "reserve"), 0) == 0
    assert grown["attempts_total", "ranked/bound"] == 6
    assert grown.get(("attempts_total", "ranked/refused"), 0) == 0
    assert during["refusals_total", "LimitReached"] - before.get(("refusals_total", "LimitReached"), 0) >= 4
