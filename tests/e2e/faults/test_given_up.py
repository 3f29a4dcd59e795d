"""A pod that a target cannot schedule moves to another target, unless the target binds it at that very moment."""

import contextlib

import pytest

from agent.api.kinds import CHAPERONS, NODES, PODS
from agent.api.names import virtual_node
from agent.model.podstate import scheduling_of
from tests.e2e import manifests
from tests.e2e.faults.test_collector import COLLECTOR, a_pod_comes_and_goes, standing_still
from tests.e2e.fleet import Fleet, Raw
from tests.e2e.losses import delegate_of, node_by_hand

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")


async def open_eu(fleet: Fleet, namespace: str, *, to_pods: bool) -> None:
    """Set whether pods of a namespace may go to eu."""
    await fleet.source.patch(NODES, virtual_node(namespace, "eu"), {"spec": {"unschedulable": not to_pods}})


async def waits_in_us(fleet: Fleet, namespace: str, node: str) -> Raw:
    """Create a pod that us cannot schedule; return its delegate once the PodChaperon reports that."""
    await open_eu(fleet, namespace, to_pods=False)
    pod = manifests.pod("a", affinity=manifests.only_on(node), restartPolicy="Never")
    await fleet.source.create(PODS, pod, namespace)

    async def told() -> bool:
        found = await fleet.clients["us"].list(CHAPERONS, namespace)
        return any(scheduling_of(each.get("status") or {})[0] == "unschedulable" for each in found)

    await fleet.until("us says that it has no node for the pod", told, about=namespace)
    return await delegate_of(fleet, namespace)


async def test_a_delegate_that_gets_a_node_while_it_is_given_up_stays(fleet: Fleet) -> None:
    async with (
        fleet.namespace() as namespace,
        fleet.namespace(("eu",)) as elsewhere,
        contextlib.AsyncExitStack() as still,
    ):
        delegate, us = await waits_in_us(fleet, namespace, "us-manual"), fleet.clients["us"]
        name = delegate["metadata"]["name"]
        await still.enter_async_context(standing_still(fleet, "us", "agent"))
        async with node_by_hand(fleet):

            async def placed() -> bool:
                return bool((await us.get(PODS, name, namespace))["spec"].get("nodeName"))

            await fleet.until("the delegate has a node, of which nobody tells", placed, about=namespace)
            await open_eu(fleet, namespace, to_pods=True)
            await a_pod_comes_and_goes(fleet, elsewhere)
            assert "deletionTimestamp" not in (await us.get(CHAPERONS, name, namespace))["metadata"]
            await still.aclose()

            async def bound() -> bool:
                pod = await fleet.source.get(PODS, "a", namespace)
                return bool(pod["spec"].get("nodeName") == virtual_node(namespace, "us"))

            await fleet.until("the pod is bound to us", bound, about=namespace)
            assert (await delegate_of(fleet, namespace))["metadata"]["uid"] == delegate["metadata"]["uid"]


async def test_a_pod_is_given_up_where_the_garbage_collector_stands_still(fleet: Fleet, namespace: str) -> None:
    await waits_in_us(fleet, namespace, "nowhere")
    async with standing_still(fleet, "us", COLLECTOR):
        await open_eu(fleet, namespace, to_pods=True)

        async def moved() -> bool:
            return [cluster for cluster, _ in (await fleet.delegates(namespace)).values()] == ["eu"]

        await fleet.until("its only delegate is in eu", moved, about=namespace)
        assert await fleet.clients["us"].list(CHAPERONS, namespace) == []
