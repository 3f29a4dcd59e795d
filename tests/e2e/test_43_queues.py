"""Promise 43: queues that gate pods handle elected pods as they handle plain pods, in the source and in
targets."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from agent.api import names
from agent.api.kinds import NODES, PODS
from tests.e2e import manifests
from tests.e2e.faults.agents import agent_with
from tests.e2e.fleet import Fleet, Raw, condition
from tests.queues import GATE, gating, open_gates

pytestmark = pytest.mark.full("Whole agents; tests on single controllers hold each step.")

FLAVOUR = "e2e/flavour"
FAST = {
    "nodeSelector": {FLAVOUR: "fast"},
    "tolerations": [{"key": FLAVOUR, "operator": "Equal", "value": "fast", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": FLAVOUR, "operator": "In", "values": ["fast", "faster"]}]}
                ]
            }
        }
    },
}
"""Constraints that the queue adds to a pod when it admits the pod."""


@contextlib.asynccontextmanager
async def flavoured(fleet: Fleet) -> AsyncIterator[dict[str, str]]:
    """Label and taint one node per cluster with the flavour. Yields the node's name by cluster."""
    chosen: dict[str, str] = {}
    taint = {"key": FLAVOUR, "value": "fast", "effect": "NoSchedule"}
    try:
        for cluster, client in fleet.clients.items():
            found = await client.list(NODES, labels=f"{names.PROVIDER_KEY}!={names.PROVIDER_VALUE}")
            chosen[cluster] = max(node["metadata"]["name"] for node in found)
            patch = {"metadata": {"labels": {FLAVOUR: "fast"}}, "spec": {"taints": [taint]}}
            await client.patch(NODES, chosen[cluster], patch, style="strategic")
        yield chosen
    finally:
        for cluster, node in chosen.items():
            gone = {"metadata": {"labels": {FLAVOUR: None}}, "spec": {"taints": [{**taint, "$patch": "delete"}]}}
            await fleet.clients[cluster].patch(NODES, node, gone, style="strategic")


async def scheduled(fleet: Fleet, namespace: str, name: str) -> Raw:
    """Return the condition PodScheduled of a pod in the source."""
    return condition(await fleet.source.get(PODS, name, namespace), "PodScheduled")


async def admit(fleet: Fleet, namespace: str, name: str) -> None:
    """Add the flavour to a gated pod, then remove its gate."""
    pod = await fleet.source.get(PODS, name, namespace)
    tolerations = [*(pod["spec"].get("tolerations") or ()), *FAST["tolerations"]]
    await fleet.source.patch(PODS, name, {"spec": {**FAST, "tolerations": tolerations}}, namespace)
    await open_gates(fleet.source, namespace, name)


async def test_a_pod_runs_on_the_node_that_a_queue_of_the_source_chose_while_it_gated_the_pod(
    fleet: Fleet, namespace: str
) -> None:
    both = {"plain": None, "federated": manifests.ELECT}
    async with flavoured(fleet) as nodes:
        for name, elect in both.items():
            made = manifests.pod(name, elect=elect, schedulingGates=[{"name": GATE}])
            await fleet.source.create(PODS, made, namespace)
        for name in both:
            assert (await scheduled(fleet, namespace, name))["reason"] == "SchedulingGated", name
        assert not await fleet.delegates(namespace)
        for name in both:
            await admit(fleet, namespace, name)
        (plain,) = await fleet.running(namespace, "plain", 1)
        (proxy,) = await fleet.running(namespace, "federated", 1)
        ((cluster, delegate),) = (await fleet.delegates(namespace)).values()
        assert plain["spec"]["nodeName"] == nodes["cd"]
        assert delegate["spec"]["nodeName"] == nodes[cluster]
        assert proxy["spec"]["nodeName"] == names.virtual_node(namespace, cluster)


async def test_a_pod_waits_for_a_queue_of_its_target_and_goes_to_another_target_in_the_end(
    fleet: Fleet, namespace: str
) -> None:
    us, eu = fleet.clients["us"], names.virtual_node(namespace, "eu")

    async def waits(name: str) -> bool:
        found = await scheduled(fleet, namespace, name)
        return found.get("status") == "False" and GATE in found.get("message", "")

    async with gating(us, namespace), agent_with(fleet, "cd", ("--take-up=3",)):
        await fleet.source.patch(NODES, eu, {"spec": {"unschedulable": True}})
        made = {}
        for name in ("queued-soon", "queued-late"):
            made[name] = (await fleet.source.create(PODS, manifests.pod(name), namespace))["metadata"]["uid"]
        for name in made:
            await fleet.until(f"{name} says that a queue gates it", lambda name=name: waits(name), about=namespace)
        await open_gates(us, namespace, names.chaperon("queued-soon", made["queued-soon"]))
        (soon,) = await fleet.running(namespace, "queued-soon", 1)
        assert soon["spec"]["nodeName"] == names.virtual_node(namespace, "us")
        await fleet.source.patch(NODES, eu, {"spec": {"unschedulable": None}})
        (late,) = await fleet.running(namespace, "queued-late", 1)
        assert (late["metadata"]["uid"], late["spec"]["nodeName"]) == (made["queued-late"], eu)
