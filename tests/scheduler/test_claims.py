"""Pods that ask for claims of their target's cluster, between real clusters with ClusterProperties."""

import contextlib
import functools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import CLUSTER_PROPERTIES, CLUSTER_SUMMARIES, CRDS, PODS
from agent.api.names import SUMMARY_NAME
from agent.api.names.ocm import CLAIMS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model import clusterclaims
from agent.scheduler.failed_targets import failed_targets_of
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import connect
from tests.controllers.targets.test_summary import definition, fact
from tests.scheduler.reserving import Open, Stage
from tests.scheduler.test_placement import UNSCHEDULABLE, runs, stand
from tests.waiting import unserved, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180), pytest.mark.usefixtures("serving")]

REGION, GPU = "p2code.filter.region", "p2code.filter.gpu"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def serving(reserving_targets: Sandbox) -> AsyncIterator[None]:
    """Serve ClusterProperties in both targets for the tests of this file."""
    for cluster in reserving_targets.clusters:
        async with connect(cluster.kubeconfig, name=cluster.name).session as session:
            await Client(session).create(CRDS, definition(CLUSTER_PROPERTIES))
    yield
    for cluster in reserving_targets.clusters:
        async with connect(cluster.kubeconfig, name=cluster.name).session as session:
            await unserved(Client(session), CLUSTER_PROPERTIES)


@contextlib.asynccontextmanager
async def told(opened: Open, **settings: object) -> AsyncIterator[Stage]:
    """Open a stage whose targets publish no claims before and after the test."""
    async with opened(**settings) as stage:
        await stand(stage)
        try:
            yield stage
        finally:
            for client in stage.far.values():
                for each in await client.list(CLUSTER_PROPERTIES):
                    await client.delete(CLUSTER_PROPERTIES, each["metadata"]["name"])
                await until(functools.partial(_forgotten, client))


async def _forgotten(client: Client) -> bool:
    """Return whether the target's summary has no claim, since the next stage starts by reading it."""
    summary = await client.get(CLUSTER_SUMMARIES, SUMMARY_NAME)
    return not clusterclaims.read((summary["metadata"].get("annotations") or {}).get(CLAIMS))


async def claim(client: Client, name: str, value: str) -> None:
    """Create a claim of the cluster, once its CRD is served."""

    async def said() -> bool:
        try:
            await client.patch(CLUSTER_PROPERTIES, name, {"spec": {"value": value}})
        except NotFound:
            await client.create(CLUSTER_PROPERTIES, fact(CLUSTER_PROPERTIES, name, value))
        return True

    await until(said)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.parametrize("mode", [pytest.param("ranked", marks=pytest.mark.seldom), "reserve"])
async def test_a_pod_goes_where_the_cluster_has_the_claims_that_it_and_its_namespace_ask_for(
    opened: Open, mode: str
) -> None:
    async with told(opened, scheduling=mode) as stage:
        await stage.pods("free")
        await stage.pods("south", annotations={REGION: "south"})
        assert await stage.waits("south", "no claim") == (
            f"0/2 targets are available: eu: its cluster has no claim {REGION}, which is to be south for the pod,"
            f" us: its cluster has no claim {REGION}, which is to be south for the pod"
        )
        assert await runs(stage, "free") in stage.targets
        await claim(stage.far["eu"], REGION, "north")
        await claim(stage.far["us"], REGION, "south")
        assert await runs(stage, "south") == "us"
        await stage.namespace_says({REGION: "north"})
        group = {f"multicluster/group{key}": value for key, value in {"": "g", "-size": "2"}.items()}
        await stage.pods("a", "b", annotations=group)
        assert [await runs(stage, name) for name in ("a", "b")] == ["eu", "eu"]
        await stage.pods("both", annotations={REGION: "south"})
        said = await stage.waits("both", "is north")
        assert f"eu: its claim {REGION} is north, and is to be south for the pod" in said
        assert f"us: its claim {REGION} is south, and is to be north for namespace {stage.namespace}" in said
        await stage.namespace_says({REGION: None})
        assert await runs(stage, "both") == "us"


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.parametrize("mode", ["ranked", pytest.param("reserve", marks=pytest.mark.seldom)])
async def test_a_claim_that_changes_moves_what_is_not_bound_and_nothing_else(opened: Open, mode: str) -> None:
    async with told(opened, scheduling=mode) as stage:
        await claim(stage.far["eu"], GPU, "true")
        await stage.pods("bound", annotations={GPU: "true"})
        assert await runs(stage, "bound") == "eu"
        await stage.pods("pending", annotations={GPU: "true"}, affinity=UNSCHEDULABLE)
        await until(lambda: _candidate(stage, "eu"))
        await claim(stage.far["eu"], GPU, "false")
        await until(lambda: _left(stage, "eu"), 60.0)
        if mode == "ranked":
            attempts = failed_targets_of(await stage.client.get(PODS, "pending", stage.namespace))
            reason = attempts[stage.targets["eu"].node_name].reason
            assert reason == f"its claim {GPU} is false, and is to be true for the pod"
        await claim(stage.far["us"], GPU, "true")
        await until(lambda: _candidate(stage, "us"), 60.0)
        assert await runs(stage, "bound") == "eu"


async def _left(stage: Stage, target: str) -> bool:
    return not await _candidate(stage, target)


async def _candidate(stage: Stage, target: str) -> bool:
    return any("pending" in each["metadata"]["name"] for _, each in await stage.chaperons(target))
