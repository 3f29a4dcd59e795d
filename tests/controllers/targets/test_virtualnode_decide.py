"""Desired state of a virtual node."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.names import links, nodes
from agent.clusters.health.agent_health import AgentRecord, AgentState
from agent.clusters.stores.endpoints import Served
from agent.clusters.target import Record, State
from agent.targets.virtual_node.decide import Create, Patch, TargetAndNode, check_pattern, decide, settles_in

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY = Record(State.READY, "connected", NOW)
LOST = Record(State.UNREACHABLE, "no answer within 3 s", NOW)
SUMMARY: dict[str, Any] = {
    "metadata": {"name": "singleton", "labels": {"topology.kubernetes.io/region": "eu", "secret": "x"}},
    "capacity": {"cpu": "8"},
    "allocatable": {"cpu": "7"},
}
VIEW = TargetAndNode(
    key=("default", "c2"),
    node=None,
    record=READY,
    agent=AgentRecord(AgentState.READY, "alive"),
    draining=False,
    summary=SUMMARY,
    excluded=None,
    address="10.0.0.1",
    port=10250,
    version="v1.36.3",
    now=NOW,
)


def created(view: TargetAndNode = VIEW) -> dict[str, Any]:
    """Return the node as the API server stores it."""
    action = decide(view)
    assert isinstance(action, Create)
    node = action.manifest
    return {**node, "metadata": {**node["metadata"], "uid": "u", "resourceVersion": "5"}}


def patch(view: TargetAndNode) -> Patch:
    action = decide(view)
    assert isinstance(action, Patch)
    return action


def test_a_node_says_what_is_free_in_its_target() -> None:
    node = created()
    assert names.ANNOTATION_FREE not in node["metadata"]["annotations"]
    told = patch(replace(VIEW, node=node, free='{"cpu":"5"}'))
    assert told.body["metadata"]["annotations"] == {names.ANNOTATION_FREE: '{"cpu":"5"}'}


def test_a_node_says_what_pod_networks_its_target_has_told_last() -> None:
    told = {links.ANNOTATION_NETWORKS: '{"health":"10.2.0.7:8080","pods":["10.2.0.0/16"]}'}
    node = created(replace(VIEW, told=told))
    assert node["metadata"]["annotations"][links.ANNOTATION_NETWORKS] == '{"pods":["10.2.0.0/16"]}'
    assert decide(replace(VIEW, node=node, summary=None)) is None
    for unusable in ({}, {links.ANNOTATION_NETWORKS: '{"pods":["nonsense"]}'}):
        assert decide(replace(VIEW, node=node, told=unusable)) is None
    none = {links.ANNOTATION_NETWORKS: '{"health":"10.2.0.7:8080"}'}
    gone = patch(replace(VIEW, node=node, told=none))
    assert gone.body["metadata"]["annotations"] == {links.ANNOTATION_NETWORKS: None}


def test_a_node_declares_the_features_that_all_nodes_of_its_target_declare() -> None:
    told = {nodes.ANNOTATION_DECLARED_FEATURES: '["Resize","Guests"]'}
    summary = {**SUMMARY, "metadata": {**SUMMARY["metadata"], "annotations": told}}
    view = replace(VIEW, summary=summary, declares_features=True)
    node = created(view)
    assert node["status"]["declaredFeatures"] == ["Guests", "Resize"]
    assert decide(replace(view, node=node)) is None
    assert decide(replace(view, node=node, summary=None)) is None, "they stay while nothing is told"
    gone = patch(replace(VIEW, node=node, declares_features=True))
    assert gone.body["status"] == {"declaredFeatures": None}
    assert "declaredFeatures" not in created(replace(view, declares_features=False))["status"]


def test_a_node_is_made_with_everything_at_once() -> None:
    node = created()
    assert node["metadata"]["name"] == "admiralty-default-c2"
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "eu"
    assert node["spec"]["taints"] == [
        {"key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule"}
    ]
    status = node["status"]
    assert status["allocatable"] == {"cpu": "7", "pods": "0"}
    assert status["addresses"] == [{"type": "InternalIP", "address": "10.0.0.1"}]
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert decide(replace(VIEW, node=node)) is None


def test_huge_pages_of_several_sizes_are_shown_where_this_cluster_has_them() -> None:
    pages = {"cpu": "8", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}
    view = replace(VIEW, summary={**SUMMARY, "capacity": pages, "allocatable": pages})
    assert created(view)["status"]["capacity"] == {"cpu": "8"}
    assert created(replace(view, several_huge_pages=True))["status"]["capacity"] == pages


def test_a_port_is_announced_once_it_is_known_and_stays_while_it_is_not() -> None:
    node = created(replace(VIEW, port=10257))
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10257}}
    assert decide(replace(VIEW, node=node, port=None)) is None
    assert patch(replace(VIEW, node=node, port=10258)).body["status"] == {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10258}}
    }


def test_a_condition_says_how_the_kubelet_api_goes() -> None:
    node = created(replace(VIEW, served=Served("NoCertificate", "nobody signs")))
    found = find_condition(node["status"]["conditions"], "KubeletServing")
    assert found is not None
    assert (found["status"], found["reason"], found["message"]) == ("False", "NoCertificate", "nobody signs")
    assert decide(replace(VIEW, node=node)) is None
    well = patch(replace(VIEW, node=node, served=Served("Serving", "it does")))
    found = find_condition(well.body["status"]["conditions"], "KubeletServing")
    assert found is not None
    assert found["status"] == "True"


def test_a_target_that_was_never_connected_gets_no_node() -> None:
    assert decide(replace(VIEW, record=None)) is None


def test_a_lost_target_leaves_its_node_ready_and_capable_but_tainted() -> None:
    node = created()
    first = patch(replace(VIEW, node=node, record=LOST, summary=None))
    assert first.sub is None
    assert first.body["metadata"] == {"resourceVersion": "5"}
    assert {"key": "multicluster/unreachable", "effect": "NoSchedule"} in first.body["spec"]["taints"]
    node["spec"] = first.body["spec"]
    second = patch(replace(VIEW, node=node, record=LOST, summary=None))
    assert second.sub == "status"
    conditions = second.body["status"].pop("conditions")
    assert second.body["status"] == {}
    ready, reachable = (find_condition(conditions, kind) or {} for kind in ("Ready", "TargetReachable"))
    assert (ready["status"], reachable["status"]) == ("True", "False")
    assert (reachable["reason"], reachable["message"]) == ("Unreachable", "no answer within 3 s")
    assert ready["reason"] == "VirtualNodeReady"


def test_the_taint_goes_when_the_target_is_back() -> None:
    node = created(replace(VIEW, record=LOST))
    body = patch(replace(VIEW, node=node)).body
    assert [taint["key"] for taint in body["spec"]["taints"]] == ["virtual-kubelet.io/provider"]


def test_a_target_whose_credentials_went_is_away() -> None:
    body = patch(replace(VIEW, node=created(), record=None, summary=None)).body
    assert body["spec"]["taints"][-1]["key"] == "multicluster/unreachable"


def test_a_target_being_removed_takes_no_new_pods() -> None:
    body = patch(replace(VIEW, node=created(), draining=True)).body
    assert body["spec"]["taints"][-1] == {"key": "multicluster/draining", "effect": "NoSchedule"}


def keys(node: dict[str, Any]) -> set[str]:
    return {taint["key"] for taint in node["spec"]["taints"]}


@pytest.mark.parametrize("state", [AgentState.SILENT, AgentState.TOO_OLD])
def test_a_target_whose_agent_does_not_work_takes_no_new_pods(state: AgentState) -> None:
    record = AgentRecord(state, "see that its agent runs")
    body = patch(replace(VIEW, node=created(), agent=record)).body
    assert body["spec"]["taints"][-1] == {"key": "multicluster/agent-not-ready", "effect": "NoSchedule"}


def test_the_taint_of_an_agent_goes_when_it_works_again_or_nothing_is_known_of_it() -> None:
    node = created(replace(VIEW, agent=AgentRecord(AgentState.SILENT, "dead")))
    for state in (AgentState.READY, AgentState.UNKNOWN):
        body = patch(replace(VIEW, node=node, agent=AgentRecord(state, "x"))).body
        assert keys(body) == {"virtual-kubelet.io/provider"}


def test_the_taint_of_an_agent_stays_as_it_is_until_something_is_known() -> None:
    tainted = created(replace(VIEW, agent=AgentRecord(AgentState.SILENT, "dead")))
    assert decide(replace(VIEW, node=tainted, agent=None)) is None
    assert decide(replace(VIEW, node=created(), agent=None)) is None
    lost = patch(replace(VIEW, node=tainted, record=LOST, agent=AgentRecord(AgentState.READY, "alive"))).body
    assert "multicluster/agent-not-ready" in keys(lost)


def test_what_users_did_to_the_node_survives() -> None:
    node = created()
    node["metadata"]["labels"]["team"] = "x"
    node["metadata"]["annotations"]["note"] = "y"
    node["spec"]["unschedulable"] = True
    node["spec"]["taints"] = [{"key": "mine", "effect": "NoExecute"}, *node["spec"]["taints"]]
    assert decide(replace(VIEW, node=node)) is None
    body = patch(replace(VIEW, node=node, record=LOST)).body
    assert body["spec"]["taints"][0] == {"key": "mine", "effect": "NoExecute"}
    assert set(body) == {"metadata", "spec"}


def test_excluded_labels_are_left_off_and_taken_away() -> None:
    assert "secret" not in created(replace(VIEW, excluded="^secret="))["metadata"]["labels"]
    body = patch(replace(VIEW, node=created(), excluded="^secret=")).body
    assert body["metadata"]["labels"] == {"secret": None}


def test_labels_of_the_target_stay_while_its_summary_cannot_be_read() -> None:
    assert decide(replace(VIEW, node=created(), summary=None)) is None


def test_labels_that_the_target_no_longer_has_go() -> None:
    fewer = {**SUMMARY, "metadata": {"name": "singleton", "labels": {"secret": "x"}}}
    body = patch(replace(VIEW, node=created(), summary=fewer)).body
    assert body["metadata"]["labels"] == {"topology.kubernetes.io/region": None}


def test_a_wrong_regular_expression_is_explained() -> None:
    assert check_pattern("^a=") is None
    assert check_pattern(None) is None
    assert (check_pattern("(") or "").startswith("spec.excludedLabelsRegexp:")


def test_a_target_that_is_connecting_or_not_yet_connected_is_given_five_seconds() -> None:
    connecting = Record(State.CONNECTING, "connecting", NOW)
    assert settles_in(connecting, None, NOW + timedelta(seconds=1)) == 4.0
    assert settles_in(None, NOW, NOW + timedelta(seconds=2)) == 3.0
    assert settles_in(None, NOW, NOW + timedelta(seconds=9)) == 0.0
    assert settles_in(READY, None, NOW) == 0.0
