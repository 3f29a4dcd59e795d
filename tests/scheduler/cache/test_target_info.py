"""Scheduler's view of a target, its node and its summary."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent.api.kinds import CLUSTER_SUMMARIES, NODES
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.copies.prerequisites import Prerequisites
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import AgentRecord, AgentState
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Probing, Record, State, Target
from agent.clusters.target_info import target_info_of
from agent.kube.config import Connection
from agent.kube.events import Recorder
from agent.kube.store import Object
from agent.model.summary import summarise
from agent.ranking.snapshot import Quota, amounts
from agent.runtime.supervisor import Supervisor
from agent.scheduler.cache.target_cache import NOT_UNDERSTOOD, TargetCache, matters
from agent.settings import Settings
from tests.ranking.pods_and_targets import target_info

NODE = Object(NODES, b'{"metadata":{"name":"admiralty-default-eu"}}')


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    """Return a target that its probe considers ready."""
    cluster = Cluster(Connection("http://127.0.0.1:1"), "eu")
    target = Target(("default", "eu"), cluster, SystemClock(), Probing())
    target.record = Record(State.READY, "connected", SystemClock().now())
    yield target
    await cluster.close()


def summary(**properties: str) -> Object:
    nodes = [{"metadata": {"name": "n", "labels": {"os": "linux"}}}]
    told: dict[str, Any] = summarise(nodes, properties=properties)
    return Object(CLUSTER_SUMMARIES, msgspec.json.encode(told))


async def test_a_ready_target_with_a_node_takes_pods(target: Target) -> None:
    target_info = target_info_of(target, NODE, None)
    assert (target_info.ready, target_info.state) == (True, "")


async def test_a_target_without_a_node_does_not_yet(target: Target) -> None:
    target_info = target_info_of(target, None, None)
    assert (target_info.ready, target_info.state) == (False, "its virtual node does not exist yet")


async def test_a_lost_target_says_since_when(target: Target) -> None:
    target.record = Record(State.UNREACHABLE, "no answer", SystemClock().now())
    target_info = target_info_of(target, NODE, None)
    assert not target_info.ready
    assert target_info.state.startswith("no answer (since ")


@pytest.mark.parametrize("state", [AgentState.SILENT, AgentState.TOO_OLD])
async def test_a_target_whose_agent_does_not_work_says_why(target: Target, state: AgentState) -> None:
    target._agent.record = AgentRecord(state, "see that its agent runs")
    target_info = target_info_of(target, NODE, None)
    assert (target_info.ready, target_info.state) == (False, "see that its agent runs")


@pytest.mark.parametrize("agent", [None, AgentRecord(AgentState.UNKNOWN, "?"), AgentRecord(AgentState.READY, "alive")])
async def test_a_target_of_whose_agent_nothing_bad_is_known_takes_pods(
    target: Target, agent: AgentRecord | None
) -> None:
    target._agent.record = agent
    assert target_info_of(target, NODE, None).ready


async def test_properties_of_a_cluster_are_not_labels_of_its_nodes(target: Target) -> None:
    assert target_info_of(target, NODE, summary()).common_labels == {"os": "linux"}
    assert target_info_of(target, NODE, summary(tier="gold")).common_labels == {"os": "linux"}


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "[1]"])
async def test_properties_that_cannot_be_read_are_none(target: Target, text: str) -> None:
    metadata = {"name": "s", "labels": {"a": "b"}, "annotations": {"multicluster/cluster-properties": text}}
    told = Object(CLUSTER_SUMMARIES, msgspec.json.encode({"metadata": metadata}))
    assert target_info_of(target, NODE, told).common_labels == {"a": "b"}


async def test_each_shape_has_what_all_nodes_share_and_its_own_labels_only(target: Target) -> None:
    shapes = [{"labels": {"disk": "ssd"}, "count": 1}, {"labels": {}, "count": 2}]
    metadata = {
        "name": "s",
        # The summary treats `disk` as common, since all nodes with this label agree.
        "labels": {"os": "linux", "disk": "ssd"},
        "annotations": {"multicluster/node-shapes": msgspec.json.encode(shapes).decode()},
    }
    told = Object(CLUSTER_SUMMARIES, msgspec.json.encode({"metadata": metadata}))
    target_info = target_info_of(target, NODE, told)
    assert [shape.labels for shape in target_info.shapes] == [{"os": "linux", "disk": "ssd"}, {"os": "linux"}]


async def test_a_target_that_cannot_be_made_up_takes_no_pods_and_the_others_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A published value may be one that no code anticipated."""
    local = Cluster(Connection("http://127.0.0.1:1"), "local")
    async with Supervisor("test") as supervisor:
        clock = SystemClock()
        targets = Targets(local, clock, Probing(), supervisor)
        chaperons, prerequisites = Chaperons(targets, "u"), Prerequisites(targets)
        recorder = Recorder(local.client, clock)
        deps = Deps(Settings(), clock, local, "u", targets, chaperons, prerequisites, recorder)
        places = TargetCache(deps, local.informer(NODES), lambda: None)
        for name in ("good", "bad"):
            target = await targets.connect(("default", name), Connection("http://127.0.0.1:1"), "1")
            target.identify()
        bad = targets.get(("default", "bad"))
        assert bad is not None
        monkeypatch.setattr(bad, "_agent", None)
        found = {target_info.title: target_info.state for target_info in places.serving("default")}
        assert found.keys() == {"good", "bad"}
        assert found["bad"] == NOT_UNDERSTOOD
        assert "target default/bad" in caplog.text
        await targets.close()
        await local.close()


def limited(hard: str, used: str) -> dict[str, Any]:
    return {"quotas": {"default": (Quota("few", amounts({"pods": hard}), amounts({"pods": used})),)}}


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        (limited("2", "2"), limited("3", "2"), True),
        (limited("2", "2"), limited("2", "1"), True),
        (limited("2", "2"), {}, True),
        (limited("2", "1"), limited("2", "2"), False),
        ({}, limited("2", "2"), False),
        ({}, {"weight": 1}, True),
    ],
    ids=["it is raised", "a pod went", "it went", "it fills up", "there is one more", "anything else changed"],
)
def test_pods_that_wait_are_woken_by_a_quota_only_if_it_leaves_more(
    before: dict[str, Any], after: dict[str, Any], wakes: bool
) -> None:
    assert matters(target_info("eu", **before), target_info("eu", **after)) is wakes
