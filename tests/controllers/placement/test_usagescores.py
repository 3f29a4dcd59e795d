"""Usage scores, on a real API server that is both source and target."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    CLUSTER_ROLES,
    CLUSTER_SUMMARIES,
    NAMESPACES,
    NODES,
    TARGETS,
)
from agent.api.names.ocm import LABEL_CLUSTER_NAME, OURS
from agent.base.metrics import REGISTRY
from agent.clusters.deps import Deps
from agent.clusters.target import State
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.kube.errors import NotFound
from agent.placement.usage_scores import UsageScoresController
from agent.targets.summary import SummaryController
from hack.lab.sandbox import Cluster
from tests.controllers.limited import limited
from tests.controllers.starting import running
from tests.controllers.target_links import condition, target, tear_away
from tests.controllers.targets.test_summary import node
from tests.namespaces import end
from tests.ocm import object_of
from tests.waiting import at_rest, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
CONTROLLERS = (SummaryController, UsageScoresController)
WANTED = {"usage_scores": "true", "placement": "consume", "discovery_interval": 0.2, "agent_interval": 3600.0}
"""Settings that fix who evaluates Placements. The target has no agent, and its silence must not matter."""
NAME = "resource-usage-score"


@pytest.fixture
async def eu(client: Client, namespace: str, placement_kinds: None) -> AsyncIterator[str]:
    """Yield the namespace of a ManagedCluster that the Target's status names."""
    await create_namespace(client, f"{namespace}-eu")
    await client.create(TARGETS, target("eu", namespace))
    await lead(client, namespace, f"{namespace}-eu")
    yield f"{namespace}-eu"
    await tear_away(client, namespace)
    for each in (f"{namespace}-eu", f"{namespace}-new"):
        await end(client, each)
    for each in await client.list(NODES, labels=f"made-by={namespace}"):
        await client.delete(NODES, each["metadata"]["name"])


async def create_namespace(client: Client, name: str) -> None:
    await client.create(NAMESPACES, object_of(NAMESPACES, name, metadata={"labels": {LABEL_CLUSTER_NAME: name}}))


async def lead(client: Client, namespace: str, cluster: str) -> None:
    await client.patch(TARGETS, "eu", {"status": {"managedCluster": cluster}}, namespace, sub="status")


async def connect(deps: Deps, cluster: Cluster, namespace: str, fingerprint: str = "right") -> None:
    connection = load(str(cluster.kubeconfig))
    if fingerprint == "wrong":
        connection = Connection(server="https://127.0.0.1:1")
    connected = await deps.targets.connect((namespace, "eu"), connection, fingerprint)
    state = State.UNREACHABLE if fingerprint == "wrong" else State.READY
    await until(lambda: connected.record.state is state)


async def scores(client: Client, cluster: str) -> Raw | None:
    """Return the status of a cluster's scores; None if there is none yet."""
    with contextlib.suppress(NotFound):
        found = await client.get(ADDON_PLACEMENT_SCORES, NAME, cluster)
        return dict(found["status"]) if found.get("status") else None
    return None


def names_of(status: Raw) -> set[str]:
    return {each["name"] for each in status["scores"]}


async def value(client: Client, cluster: str, name: str) -> int | None:
    status = await scores(client, cluster) or {}
    return {each["name"]: each["value"] for each in status.get("scores") or ()}.get(name)


def writes() -> float:
    found = 0.0
    for method, resource in (("PATCH", "addonplacementscores/status"), ("POST", "addonplacementscores")):
        for outcome in ("200", "201"):
            labels = {"cluster": "local", "method": method, "resource": resource, "outcome": outcome}
            found += REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0
    return found


async def add_node(client: Client, namespace: str, cpu: str) -> None:
    made = node(f"{namespace}-large", cpu, **{"made-by": namespace})
    await client.create(NODES, made)


async def test_scores_follow_what_the_target_tells(
    cluster: Cluster, client: Client, namespace: str, eu: str, alone: None
) -> None:
    async with running(cluster, *CONTROLLERS, **WANTED) as deps:
        await connect(deps, cluster, namespace)

        async def unmeasured() -> Raw | None:
            found = await scores(client, eu)
            # The summary may first contain values of other tests.
            return found if found and "cpuClusterIdle" not in names_of(found) else None

        first = await until(unmeasured, what="scores without what nobody measures") or {}
        wanted = {"cpuNodeAvailable", "memClusterAvailable", "gpuNodeAvailable", "cpuAvailable", "cpuNodeRatio"}
        assert wanted < names_of(first)
        told = find_condition(first["conditions"], "AddOnPlacementScoreUpdated")
        assert told is not None
        assert (told["status"], told["reason"]) == ("True", "Updated")
        assert first["validUntil"]
        found = await client.get(ADDON_PLACEMENT_SCORES, NAME, eu)
        assert found["metadata"]["labels"] == {OURS: "true"}
        # Values of other tests may still be written to the summary.
        before = await at_rest(writes)
        # Fields of the summary other than free capacity have no effect.
        await client.patch(
            NODES, (await client.list(NODES))[0]["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}}
        )
        await until(lambda: _labelled(client))
        await add_node(client, namespace, "90")

        async def reached() -> bool:
            return await value(client, eu, "cpuNodeAvailable") == 80

        await until(reached)
        # A write is visible before it is counted, on its response.
        await until(lambda: writes() > before)
        assert writes() == before + 1
        # Another writer changes the scores.
        await client.patch(ADDON_PLACEMENT_SCORES, NAME, {"status": {"scores": []}}, eu, sub="status")
        await until(reached)
        status = (await client.get(TARGETS, "eu", namespace))["status"]
        assert find_condition(status.get("conditions"), "UsageScores") is None, "all is well"


async def _labelled(client: Client) -> bool:
    return "a" in (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"]["labels"]


async def test_a_lost_target_has_no_scores_until_it_is_back(
    cluster: Cluster, client: Client, namespace: str, eu: str
) -> None:
    async with running(cluster, *CONTROLLERS, **WANTED) as deps:
        await connect(deps, cluster, namespace)
        await until(lambda: value(client, eu, "cpuNodeAvailable"))
        await connect(deps, cluster, namespace, "wrong")

        async def emptied() -> Raw | None:
            status = await scores(client, eu) or {}
            return status if status["scores"] == [] else None

        lost = await until(emptied) or {}
        told = find_condition(lost["conditions"], "AddOnPlacementScoreUpdated")
        assert told is not None
        assert (told["status"], told["reason"]) == ("False", "TargetLost")
        assert told["message"]
        assert "validUntil" not in lost
        await connect(deps, cluster, namespace)
        await until(lambda: value(client, eu, "cpuNodeAvailable"))
        # The Target no longer names the ManagedCluster.
        await lead(client, namespace, "")
        assert find_condition((await until(emptied) or {})["conditions"], "AddOnPlacementScoreUpdated") == {
            **told,
            "message": "no Target leads to it any more",
            "lastTransitionTime": (await scores(client, eu) or {})["conditions"][0]["lastTransitionTime"],
        }


async def test_what_keeps_scores_from_being_written_is_told_on_the_target(
    cluster: Cluster, client: Client, namespace: str, eu: str
) -> None:
    new = f"{namespace}-new"
    await lead(client, namespace, new)
    async with running(cluster, *CONTROLLERS, **WANTED) as deps:
        await connect(deps, cluster, namespace)
        told = await condition(client, namespace, "eu", "UsageScores", "False", "NamespaceMissing")
        assert f"there is no namespace {new}" in told["message"]
        await create_namespace(client, new)
        await condition(client, namespace, "eu", "UsageScores", "True", "Written")
        assert await value(client, new, "cpuNodeAvailable") is not None
        theirs = await client.create(ADDON_PLACEMENT_SCORES, object_of(ADDON_PLACEMENT_SCORES, NAME, eu))
        await lead(client, namespace, eu)
        told = await condition(client, namespace, "eu", "UsageScores", "False", "ScoresTaken")
        assert "another's" in told["message"]
        found = await client.get(ADDON_PLACEMENT_SCORES, NAME, eu)
        assert found["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
        await client.delete(ADDON_PLACEMENT_SCORES, NAME, eu)
        await condition(client, namespace, "eu", "UsageScores", "True", "Written")


async def test_where_placements_are_served_no_scores_are_written_into_a_namespace_that_is_not_for_the_cluster(
    cluster: Cluster, client: Client, namespace: str, eu: str
) -> None:
    await client.patch(NAMESPACES, eu, {"metadata": {"labels": {LABEL_CLUSTER_NAME: None}}})
    async with running(cluster, *CONTROLLERS, **WANTED | {"placement": "serve"}) as deps:
        await connect(deps, cluster, namespace)
        told = await condition(client, namespace, "eu", "UsageScores", "False", "NamespaceTaken")
        assert f"label it {LABEL_CLUSTER_NAME}={eu}" in told["message"]
        assert await client.list(ADDON_PLACEMENT_SCORES, eu) == []
        await client.patch(NAMESPACES, eu, {"metadata": {"labels": {LABEL_CLUSTER_NAME: eu}}})
        await condition(client, namespace, "eu", "UsageScores", "True", "Written")
        assert await value(client, eu, "cpuNodeAvailable") is not None


READS = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
TELLS = [
    {"apiGroups": ["*"], "resources": ["targets/status", "clustersummaries", "events"], "verbs": ["create", "patch"]}
]
SCORES = [
    {
        "apiGroups": ["*"],
        "resources": ["addonplacementscores", "addonplacementscores/status"],
        "verbs": ["create", "patch"],
    }
]


async def test_without_the_right_nothing_is_written_and_the_target_says_so(
    cluster: Cluster, client: Client, namespace: str, eu: str, tmp_path: Path
) -> None:
    async with (
        limited(cluster, client, namespace, tmp_path, READS + TELLS) as weak,
        running(weak, *CONTROLLERS, **WANTED) as deps,
    ):
        await connect(deps, cluster, namespace)
        told = await condition(client, namespace, "eu", "UsageScores", "False", "Forbidden")
        assert "agent.placement.usageScores" in told["message"]
        await client.patch(CLUSTER_ROLES, namespace, {"rules": READS + TELLS + SCORES})
        # The next change of the target's summary is sufficient, too.
        await add_node(client, namespace, "90")
        await until(lambda: scores(client, eu))


async def test_a_target_that_does_not_tell_what_is_free_is_told_so(
    cluster: Cluster, client: Client, namespace: str, eu: str
) -> None:
    # Values of an earlier agent in the summary would be written first.
    with contextlib.suppress(NotFound):
        await client.delete(CLUSTER_SUMMARIES, "singleton")
    async with running(cluster, *CONTROLLERS, **WANTED, summary_detail="sums") as deps:
        await connect(deps, cluster, namespace)
        told = await condition(client, namespace, "eu", "UsageScores", "False", "NotTold")
        assert "agent.summaryDetail: full" in told["message"]
        assert await client.list(ADDON_PLACEMENT_SCORES, eu) == []


async def test_scores_are_written_where_placements_are_served_or_somebody_asks_for_them(
    cluster: Cluster, client: Client, namespace: str, eu: str
) -> None:
    for settings in ({"usage_scores": "auto"}, {"usage_scores": "false", "placement": "serve"}, {"placement": "off"}):
        async with running(cluster, *CONTROLLERS, **WANTED | settings) as deps:
            await connect(deps, cluster, namespace)
            await until(lambda: client.get(CLUSTER_SUMMARIES, "singleton"))
            # Another controller has stored the summary: this one has observed the same event.
            await until(lambda: deps.targets.get((namespace, "eu")).summary)  # type: ignore[union-attr]
            assert await client.list(ADDON_PLACEMENT_SCORES, eu) == []
    async with running(cluster, *CONTROLLERS, **WANTED | {"usage_scores": "auto", "placement": "serve"}) as deps:
        await connect(deps, cluster, namespace)
        await until(lambda: scores(client, eu))
