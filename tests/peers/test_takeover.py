"""A source cluster that Admiralty ran until now: Flotilla's agent adopts its pods without changes to their
delegates."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, NAMESPACES, NODES, PODS, TARGETS
from agent.api.names import ENABLED_VALUE, LABEL_ENABLED, LABEL_PARENT_CLUSTER_UID, finalizer, virtual_node
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.peers.conftest import without_agent
from tests.peers.contract import ALLOWED, CLUSTER_NAME, P, annotation, bind, chaperon_of, condition, proxy_of
from tests.peers.writes import while_idle

Raw = dict[str, Any]

IDLE_SECONDS = 3.0
OTHER_CLUSTER = P + "another-target-0123456789"
"""Finalizer of a deleted target: Admiralty's webhook added the finalizers of all targets to every pod."""


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """Namespace of a with the targets t and b."""
    async with fleet.namespace(("t", "b"), source="a", enabled=False) as name:
        yield name
    await fleet.all_gone()


@contextlib.asynccontextmanager
async def before_us(fleet: Fleet) -> AsyncIterator[None]:
    """Simulate the time before the migration, when Admiralty's agent ran in a."""
    async with without_agent(fleet, "a"):
        yield


async def made_by_admiralty(fleet: Fleet, namespace: str, *named: str, held: bool = True) -> list[Raw]:
    """Create unbound proxy pods in a, as Admiralty's webhook leaves them in an enabled namespace.

    :param held: whether they have the finalizers of Targets; pods of ClusterTargets lack them, as do all pods
    once Admiralty is uninstalled
    """
    finalizers = [finalizer(namespace, "t"), finalizer(namespace, "b"), OTHER_CLUSTER] if held else []
    made = []
    for name in named:
        pod = manifests.pod(name, annotations={"team": "x"})
        pod["metadata"]["namespace"] = namespace
        made.append(await fleet.source.create(PODS, proxy_of(pod, finalizers), namespace))
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"labels": {LABEL_ENABLED: ENABLED_VALUE}}})
    return made


async def candidate(fleet: Fleet, proxy: Raw, cluster: str, *, cluster_name: str | None = "same") -> Raw:
    """Create the pod's chaperon in a target, with a generated name."""
    chaperon = chaperon_of(proxy, cluster_name or "", reserve=False)
    if cluster_name is None:
        del chaperon["metadata"]["labels"][CLUSTER_NAME]
    return await fleet.clients[cluster].create(CHAPERONS, chaperon)


async def scheduled(fleet: Fleet, chaperon: Raw, cluster: str) -> None:
    metadata = chaperon["metadata"]

    async def has_node() -> bool:
        found = await fleet.clients[cluster].get(CHAPERONS, metadata["name"], metadata["namespace"])
        return condition(found, "PodScheduled").get("status") == "True"

    await fleet.until("the delegate has a node", has_node, about=metadata["namespace"])


async def adopted(fleet: Fleet, namespace: str) -> bool:
    """Return whether every chaperon in t carries the UID of a."""
    uid = (await fleet.source.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    found = await fleet.clients["t"].list(CHAPERONS, namespace)
    return bool(found) and all(each["metadata"]["labels"].get(LABEL_PARENT_CLUSTER_UID) == uid for each in found)


@pytest.mark.full("The tests of a target of Admiralty keep the protocol.")
@pytest.mark.parametrize(
    "cluster_name",
    [
        pytest.param("same", id="of our name", marks=pytest.mark.seldom),
        pytest.param("", id="of an empty name", marks=pytest.mark.seldom),
        pytest.param(None, id="without a name"),
    ],
)
async def test_a_bound_proxy_pod_is_taken_over_without_touching_its_delegate(
    fleet: Fleet, namespace: str, cluster_name: str | None
) -> None:
    async with before_us(fleet):
        (proxy,) = await made_by_admiralty(fleet, namespace, "web")
        chaperon = await candidate(fleet, proxy, "t", cluster_name=cluster_name)
        await scheduled(fleet, chaperon, "t")
        await bind(fleet.source, proxy, virtual_node(namespace, "t"))
        ((_, before),) = (await fleet.delegates(namespace)).values()
    await fleet.running(namespace, "web", 1)
    await fleet.agree(namespace)
    ((cluster, after),) = (await fleet.delegates(namespace)).values()
    assert (cluster, after["metadata"]["uid"]) == ("t", before["metadata"]["uid"])
    (kept,) = await fleet.clients["t"].list(CHAPERONS, namespace)
    assert kept["metadata"]["uid"] == chaperon["metadata"]["uid"]

    async def freed() -> bool:
        pod = await fleet.source.get(PODS, "web", namespace)
        return bool(pod["metadata"]["finalizers"] == [finalizer(namespace, "t")])

    await fleet.until("only the target's finalizer is left", freed, about=namespace)
    await fleet.until("the chaperon is ours", lambda: adopted(fleet, namespace), about=namespace)
    assert await while_idle(fleet, IDLE_SECONDS) == {}
    await fleet.source.delete(PODS, "web", namespace)
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


@pytest.mark.seldom
async def test_the_loser_of_a_bound_proxy_pod_is_deleted(fleet: Fleet, namespace: str) -> None:
    async with before_us(fleet):
        (proxy,) = await made_by_admiralty(fleet, namespace, "web")
        chaperon = await candidate(fleet, proxy, "t")
        await scheduled(fleet, chaperon, "t")
        await bind(fleet.source, proxy, virtual_node(namespace, "t"))
        await candidate(fleet, proxy, "b")
    fleet.census.duplicates.clear()
    await fleet.running(namespace, "web", 1)

    async def alone() -> bool:
        return not await fleet.clients["b"].list(CHAPERONS, namespace)

    await fleet.until("the loser is gone", alone, about=namespace)
    fleet.census.duplicates.clear()
    (kept,) = await fleet.clients["t"].list(CHAPERONS, namespace)
    assert kept["metadata"]["uid"] == chaperon["metadata"]["uid"]


@pytest.mark.full("A variant of taking over a proxy pod of Admiralty.")
async def test_a_proxy_pod_in_the_middle_of_scheduling_ends_with_one_delegate(fleet: Fleet, namespace: str) -> None:
    async with before_us(fleet):
        (proxy,) = await made_by_admiralty(fleet, namespace, "web")
        for cluster in ("t", "b"):
            await candidate(fleet, proxy, cluster)
        chaperon = (await fleet.clients["b"].list(CHAPERONS, namespace))[0]
        patch = annotation(ALLOWED, "true")
        await fleet.clients["b"].patch(CHAPERONS, chaperon["metadata"]["name"], patch, namespace)
    fleet.census.duplicates.clear()
    await fleet.running(namespace, "web", 1)

    async def one() -> bool:
        found = [each for name in ("t", "b") for each in await fleet.clients[name].list(CHAPERONS, namespace)]
        return len(found) == 1

    await fleet.until("one chaperon is left", one, about=namespace)
    fleet.census.duplicates.clear()
    await fleet.agree(namespace)
    await fleet.source.delete(PODS, "web", namespace)
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


@pytest.mark.full("A variant of taking over a proxy pod of Admiralty.")
async def test_a_proxy_pod_that_was_being_deleted_goes(fleet: Fleet, namespace: str) -> None:
    async with before_us(fleet):
        (proxy,) = await made_by_admiralty(fleet, namespace, "web")
        chaperon = await candidate(fleet, proxy, "t")
        await scheduled(fleet, chaperon, "t")
        await bind(fleet.source, proxy, virtual_node(namespace, "t"))
        await fleet.source.delete(PODS, "web", namespace)
    await fleet.gone(PODS, "web", namespace)
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)
    assert await fleet.source.get(NODES, virtual_node(namespace, "t"))
    assert await fleet.source.get(TARGETS, "t", namespace)


@pytest.mark.seldom
async def test_a_target_that_is_released_during_the_takeover_leaves_no_delegate_behind(
    fleet: Fleet, namespace: str
) -> None:
    async with before_us(fleet):
        # An object without finalizers is deleted at once with its Target, which also removes the record of the
        # delegate's owner.
        for proxy in await made_by_admiralty(fleet, namespace, "one", "two", "three", held=False):
            chaperon = await candidate(fleet, proxy, "t")
            await scheduled(fleet, chaperon, "t")
            await bind(fleet.source, proxy, virtual_node(namespace, "t"))
        await fleet.source.delete(TARGETS, "t", namespace)
    await fleet.gone(TARGETS, "t", namespace)
    assert await fleet.clients["t"].list(CHAPERONS, namespace) == []
    assert await fleet.delegates(namespace) == {}
