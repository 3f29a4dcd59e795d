"""Namespaces are deleted while their pods run, or terminate in a target: nothing is left, and pods use other
targets."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import (
    CLUSTER_SOURCES,
    CLUSTER_TARGETS,
    CONFIGMAPS,
    EVENTS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
)
from agent.api.names import virtual_node
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.services.unready_pods.controller import REASON
from tests.e2e import manifests
from tests.e2e.faults.takes import takes_pods_again
from tests.e2e.fleet import Fleet, condition
from tests.e2e.losses import target_away
from tests.e2e.manifests import DEPLOYMENTS
from tests.waiting import gone, until

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")

FEW = 8
HOLD = "flotilla.test/hold"


@pytest.mark.seldom
async def test_a_source_namespace_that_goes_while_a_target_is_away_leaves_nothing_there_once_it_is_back(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", FEW), namespace)
    await fleet.running(namespace, "web", FEW)
    assert {cluster for cluster, _ in (await fleet.delegates(namespace)).values()} == {"us", "eu"}
    async with target_away(fleet, namespace):
        await fleet.source.delete(NAMESPACES, namespace)

        async def only_those_of_us() -> bool:
            left = {pod["spec"].get("nodeName") for pod in await fleet.source.list(PODS, namespace)}
            return left <= {virtual_node(namespace, "us")}

        await fleet.until("what runs elsewhere is gone", only_those_of_us, about=namespace)
        assert "deletionTimestamp" in (await fleet.source.get(NAMESPACES, namespace))["metadata"]
    await fleet.gone(NAMESPACES, namespace)
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)
    fleet.census.check(namespace, at_most=FEW, may_end=True)


@contextlib.asynccontextmanager
async def terminating(client: Client, namespace: str) -> AsyncIterator[None]:
    """Delete a namespace while a finalizer blocks its end; recreate it afterwards."""
    held = {"metadata": {"name": "held", "finalizers": [HOLD]}}
    await client.create(CONFIGMAPS, held, namespace)
    await client.delete(NAMESPACES, namespace)

    async def refuses() -> bool:
        try:
            await client.create(CONFIGMAPS, {"metadata": {"generateName": "tried-"}}, namespace)
        except Forbidden:
            return True
        return False

    try:
        await until(refuses, what="nothing can be created there")
        yield
    finally:
        await client.patch(CONFIGMAPS, "held", {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(NAMESPACES, namespace), 60)
        await client.create(NAMESPACES, manifests.namespace(namespace))
        await until(lambda: client.get(SERVICE_ACCOUNTS, "default", namespace))


@contextlib.asynccontextmanager
async def everywhere_at_us(fleet: Fleet, home: str, name: str) -> AsyncIterator[None]:
    """Make us a ClusterTarget for all namespaces, with an account in another namespace than the pods."""
    await fleet.join_everywhere(home, "us", name)
    yield
    await fleet.source.delete(CLUSTER_TARGETS, name)
    await fleet.gone(CLUSTER_TARGETS, name)
    await fleet.clients["us"].delete(CLUSTER_SOURCES, name)


async def test_a_terminating_source_namespace_shows_that_it_waits_for_a_silent_target(
    fleet: Fleet, namespace: str
) -> None:
    """The namespace controller deletes pods first (OrderedNamespaceDeletion), so that the Target exists until
    then."""
    await fleet.source.create(PODS, manifests.pod("a"), namespace)
    await fleet.running(namespace, "a", 1)
    async with target_away(fleet, namespace):
        await fleet.source.delete(NAMESPACES, namespace)

        async def reason_is_shown() -> bool:
            ready = condition(await fleet.source.get(PODS, "a", namespace), "Ready")
            return ready.get("reason") == REASON and "multicluster/lost=true" in ready["message"]

        await fleet.until("the pod gives the reason", reason_is_shown, about=namespace)
    await fleet.gone(NAMESPACES, namespace)
    assert await fleet.is_empty(namespace)


@pytest.mark.parametrize(
    "everywhere",
    [pytest.param(False, id="by a Source"), pytest.param(True, id="by a ClusterSource", marks=pytest.mark.seldom)],
)
async def test_a_target_whose_namespace_is_going_is_passed_by_says_so_and_takes_pods_when_it_is_there_again(
    fleet: Fleet, everywhere: bool
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        namespace = await stack.enter_async_context(fleet.namespace(("eu",)))
        if everywhere:
            home = await stack.enter_async_context(fleet.namespace(()))
            name = f"us-{namespace}"
            await stack.enter_async_context(everywhere_at_us(fleet, home, name))
            node = virtual_node("", name)
        else:
            await fleet.join(namespace, "us")
            node = virtual_node(namespace, "us")
        async with terminating(fleet.clients["us"], namespace):
            await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", FEW), namespace)
            pods = await fleet.running(namespace, "web", FEW)
            assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, "eu")}
            if everywhere:
                events = await fleet.source.list(EVENTS, namespace, fields="reason=FailedScheduling")
                assert any("is being terminated" in event["message"] for event in events)
        if not everywhere:
            await fleet.join(namespace, "us")
        await takes_pods_again(fleet, namespace, node)
        await fleet.agree(namespace)
