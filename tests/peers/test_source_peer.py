"""A source that follows only the minimum of the wire contract, with a Flotilla target."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, NODES, PODS
from agent.api.names import finalizer, virtual_node
from agent.kube.client import Client
from hack.lab.sandbox.objects import connect
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.rights import asked
from tests.peers.conftest import candidate_schedulers, without_agent
from tests.peers.contract import ALLOWED, MISSING, PARENT_UID, PROVIDER, RESERVED, beyond, condition, proxy_of
from tests.peers.source import Goal, SourcePeer
from tests.peers.target import TargetPeer
from tests.peers.writes import while_idle

Raw = dict[str, Any]

IDLE_SECONDS = 3.0


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def no_agent_in_b(fleet: Fleet) -> AsyncIterator[None]:
    """Stop the agent of b, which the double replaces."""
    async with without_agent(fleet, "b"):
        yield


@contextlib.asynccontextmanager
async def goals(fleet: Fleet, namespace: str, directory: Path, *targets: str) -> AsyncIterator[dict[str, Goal]]:
    """Targets with the permissions of a Source, and nodes that represent them in b."""
    found: dict[str, Goal] = {}
    async with contextlib.AsyncExitStack() as stack:
        for target in targets:
            file = directory / f"{target}.kubeconfig"
            file.write_text(await fleet.kubeconfig(namespace, target, "b"))
            client = connect(file, name=target)
            await stack.enter_async_context(client.session)
            node = virtual_node(namespace, target)
            await stand_in(fleet.clients["b"], node)
            found[target] = Goal(client, node, finalizer(namespace, target))
        yield found
        user = f"system:serviceaccount:{namespace}:b"
        assert beyond(asked(fleet.sandbox.directory), user) == [], "the double does more than Admiralty may"
        for goal in found.values():
            await fleet.clients["b"].delete(NODES, goal.node)


async def stand_in(client: Client, name: str) -> None:
    """Create a node with the fields of a virtual node that proxy pods depend on."""
    taint = {"key": PROVIDER, "value": "admiralty", "effect": "NoSchedule"}
    node = {"metadata": {"name": name, "labels": {PROVIDER: "admiralty"}}, "spec": {"taints": [taint]}}
    await client.create(NODES, node)


async def create(fleet: Fleet, namespace: str, goals: dict[str, Goal], pod: Raw) -> Raw:
    """Create a proxy pod in b as Admiralty's webhook and later admission leave it."""
    pod["metadata"]["namespace"] = namespace
    proxy = proxy_of(pod, [goal.finalizer for goal in goals.values()])
    return await fleet.clients["b"].create(PODS, proxy, namespace)


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """Namespace that Flotilla's webhook ignores."""
    async with fleet.namespace((), source="b", enabled=False) as name:
        yield name
    await fleet.all_gone()


async def empty(fleet: Fleet, namespace: str) -> None:
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


@pytest.mark.full("The tests of a target of Admiralty keep the protocol.")
async def test_without_reservation_pods_run_and_statuses_are_right(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    b = fleet.clients["b"]
    async with (
        goals(fleet, namespace, tmp_path, "t") as found,
        SourcePeer.serving(b, namespace, found, reserve=False),
    ):
        for name in ("web", "db"):
            await create(fleet, namespace, found, manifests.pod(name, annotations={"team": "x"}))
        for name in ("web", "db"):
            await fleet.running(namespace, name, 1, source="b")
        await fleet.agree(namespace)
        (cluster, delegate), _ = (await fleet.delegates(namespace)).values()
        assert cluster == "t"
        (owner,) = delegate["metadata"]["ownerReferences"]
        assert (owner["name"], owner["controller"]) == (delegate["metadata"]["name"], True)
        # With the permissions of a Source: those that capacity and logs need.
        assert "cpu" in (await found["t"].client.get(CLUSTER_SUMMARIES, "singleton"))["allocatable"]
        selector = f"{PARENT_UID}={delegate['metadata']['labels'][PARENT_UID]}"
        (seen,) = await found["t"].client.list(PODS, namespace, labels=selector)
        assert seen["metadata"]["uid"] == delegate["metadata"]["uid"]
        patch = {"metadata": {"annotations": {"cni": "10.0.0.1"}}}
        await fleet.clients["t"].patch(PODS, delegate["metadata"]["name"], patch, namespace)

        async def home() -> bool:
            return any("cni" in pod["metadata"]["annotations"] for pod in await fleet.pods(namespace, source="b"))

        await fleet.until("the annotation is home", home, about=namespace)
        assert await while_idle(fleet, IDLE_SECONDS) == {}
        for name in ("web", "db"):
            await b.delete(PODS, name, namespace)
        await empty(fleet, namespace)


@pytest.mark.full("A variant of the protocol with a source of Admiralty.")
async def test_what_is_missing_is_said_and_the_source_acts_on_it(fleet: Fleet, namespace: str, tmp_path: Path) -> None:
    b, t = fleet.clients["b"], fleet.clients["t"]
    async with goals(fleet, namespace, tmp_path, "t") as found:
        async with SourcePeer.serving(b, namespace, found, reserve=False):
            await create(fleet, namespace, found, manifests.pod("web"))
            await fleet.running(namespace, "web", 1, source="b")
        # While the source is away, the target only reports it.
        ((_, delegate),) = (await fleet.delegates(namespace)).values()
        await t.delete(PODS, delegate["metadata"]["name"], namespace)

        async def said() -> bool:
            (chaperon,) = await t.list(CHAPERONS, namespace)
            return MISSING in chaperon["metadata"]["annotations"]

        await fleet.until("the chaperon says that its pod is missing", said, about=namespace)
        async with SourcePeer.serving(b, namespace, found, reserve=False):
            await fleet.gone(PODS, "web", namespace, source="b")
            await empty(fleet, namespace)


@pytest.mark.seldom
async def test_a_reserving_source_does_no_harm_before_there_is_a_candidate_scheduler(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    b, t = fleet.clients["b"], fleet.clients["t"]
    async with (
        goals(fleet, namespace, tmp_path, "t") as found,
        SourcePeer.serving(b, namespace, found, reserve=True),
    ):
        await create(fleet, namespace, found, manifests.pod("web"))

        async def candidate() -> list[Raw]:
            return await t.list(PODS, namespace)

        (pod,) = await fleet.until("there is a candidate", candidate, about=namespace)
        assert pod["spec"]["schedulerName"] == "admiralty-candidate"
        assert await while_idle(fleet, IDLE_SECONDS) == {}
        (pod,) = await t.list(PODS, namespace)
        assert (pod["status"]["phase"], pod["spec"].get("nodeName")) == ("Pending", None)
        assert not (await b.get(PODS, "web", namespace))["spec"].get("nodeName")
        await b.delete(PODS, "web", namespace)
        await empty(fleet, namespace)


@pytest.mark.full("A variant of the protocol with a source of Admiralty.")
async def test_a_candidate_is_reserved_allowed_and_runs(fleet: Fleet, namespace: str, tmp_path: Path) -> None:
    b, t = fleet.clients["b"], fleet.clients["t"]
    async with (
        candidate_schedulers(fleet, "t"),
        goals(fleet, namespace, tmp_path, "t") as found,
        SourcePeer.serving(b, namespace, found, reserve=True),
    ):
        await create(fleet, namespace, found, manifests.pod("web"))
        await fleet.running(namespace, "web", 1, source="b")
        await fleet.agree(namespace)
        (winner,) = await t.list(CHAPERONS, namespace)
        assert {RESERVED, ALLOWED} <= winner["metadata"]["annotations"].keys()
        assert await while_idle(fleet, IDLE_SECONDS) == {}
        await b.delete(PODS, "web", namespace)
        await empty(fleet, namespace)


@pytest.mark.full("A variant of the protocol with a source of Admiralty.")
async def test_of_two_candidates_one_is_allowed_and_the_loser_leaves_no_reservation(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    a, b, t = (fleet.clients[name] for name in ("a", "b", "t"))
    async with (
        candidate_schedulers(fleet, "a", "t"),
        goals(fleet, namespace, tmp_path, "t", "a") as found,
        SourcePeer.serving(b, namespace, found, reserve=True),
    ):
        await create(fleet, namespace, found, manifests.pod("web"))
        await fleet.running(namespace, "web", 1, source="b")
        await fleet.until("the loser is gone", lambda: nothing_in(a, namespace), about=namespace)
        await fleet.agree(namespace)
        ((cluster, delegate),) = (await fleet.delegates(namespace)).values()
        assert (cluster, delegate["status"]["phase"]) == ("t", "Running")
        await b.delete(PODS, "web", namespace)
        await empty(fleet, namespace)
        assert await t.list(PODS, namespace) == []
    # This protocol works with two candidates per pod.
    fleet.census.duplicates.clear()


@pytest.mark.seldom
async def test_a_source_that_comes_late_finds_its_candidate_reserved_again(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    b, t = fleet.clients["b"], fleet.clients["t"]
    async with (
        candidate_schedulers(fleet, "t"),
        goals(fleet, namespace, tmp_path, "t") as found,
        SourcePeer.serving(b, namespace, found, reserve=True) as peer,
    ):
        peer.away = True
        await create(fleet, namespace, found, manifests.pod("web"))
        await fleet.until("it is reserved", lambda: reservation(t, namespace), about=namespace)

        async def ran_out() -> bool:
            return not await reservation(t, namespace)

        await fleet.until("its hold has ended", ran_out, about=namespace)
        peer.away = False
        await fleet.running(namespace, "web", 1, source="b")
        await fleet.agree(namespace)
        await b.delete(PODS, "web", namespace)
        await empty(fleet, namespace)


async def nothing_in(client: Client, namespace: str) -> bool:
    return not await client.list(CHAPERONS, namespace) and not await client.list(PODS, namespace)


async def reservation(client: Client, namespace: str) -> bool:
    return any(
        RESERVED in (each["metadata"].get("annotations") or {}) for each in await client.list(CHAPERONS, namespace)
    )


@pytest.mark.seldom
async def test_the_doubles_themselves_reserve_allow_and_delete_the_loser(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    """The doubles are valid: with each other, they complete the protocol."""
    a, b, t = (fleet.clients[name] for name in ("a", "b", "t"))
    async with goals(fleet, namespace, tmp_path, "t", "a") as found:
        async with (
            without_agent(fleet, "a", "t"),
            TargetPeer.serving(fleet, "a"),
            TargetPeer.serving(fleet, "t"),
            SourcePeer.serving(b, namespace, found, reserve=True),
        ):
            await create(fleet, namespace, found, manifests.pod("web"))
            await fleet.running(namespace, "web", 1, source="b")
            await fleet.agree(namespace)
            (winner,) = await t.list(CHAPERONS, namespace)
            assert {RESERVED, ALLOWED} <= winner["metadata"]["annotations"].keys()
            assert condition(winner, "PodScheduled")["status"] == "True"
            assert await a.list(CHAPERONS, namespace) == []
            await b.delete(PODS, "web", namespace)
            await empty(fleet, namespace)
        # This protocol works with two candidates per pod.
        fleet.census.duplicates.clear()
