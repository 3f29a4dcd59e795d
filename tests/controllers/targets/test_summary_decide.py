"""Changes that the ClusterSummary needs."""

from typing import Any

import msgspec
import pytest

from agent.api.names import ANNOTATION_NODE_SHAPES, links
from agent.model.knownnodes import KnownNodes
from agent.model.summary import summarise
from agent.targets.summary.decide import decide, properties, substance

NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "labels": {"zone": "a"}},
    "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "3"},
        "conditions": [{"type": "Ready", "lastHeartbeatTime": "1"}],
        "images": [],
    },
}


def stored(summary: dict[str, Any]) -> dict[str, Any]:
    return {**summary, "metadata": {**summary["metadata"], "resourceVersion": "7", "uid": "u"}}


def test_the_summary_is_made_when_there_is_none() -> None:
    assert decide(summarise([NODE]), None) == summarise([NODE])


def test_nothing_is_written_while_the_summary_is_right() -> None:
    assert decide(summarise([NODE]), stored(summarise([NODE]))) is None
    assert decide(summarise([]), stored(summarise([]))) is None


def test_what_was_edited_by_hand_is_repaired_with_the_smallest_patch() -> None:
    edited = stored(summarise([NODE]))
    edited["capacity"] = {"cpu": "400", "gpu": "1"}
    edited["metadata"] = {
        **edited["metadata"],
        "labels": {"mine": "x"},
        "annotations": {**edited["metadata"]["annotations"], "team": "x"},
    }
    assert decide(summarise([NODE]), edited) == {
        "capacity": {"cpu": "4", "gpu": None},
        "metadata": {"labels": {"mine": None, "zone": "a"}},
    }


def test_networks_that_are_told_no_more_are_removed() -> None:
    told = summarise([{**NODE, "spec": {**NODE["spec"], "podCIDRs": ["10.1.0.0/24"]}}])
    assert decide(summarise([NODE]), stored(told)) == {"metadata": {"annotations": {links.ANNOTATION_NETWORKS: None}}}


def test_shapes_that_have_become_too_long_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    current = stored(summarise([NODE]))
    monkeypatch.setattr("agent.model.nodeshapes.SHAPES_LIMIT", 10)
    assert decide(summarise([NODE]), current) == {"metadata": {"annotations": {ANNOTATION_NODE_SHAPES: None}}}


def changed(**parts: Any) -> bool:
    return substance(msgspec.json.encode(NODE)) != substance(msgspec.json.encode({**NODE, **parts}))


def test_a_heartbeat_changes_nothing_that_matters() -> None:
    status = {**NODE["status"], "conditions": [{"type": "Ready", "lastHeartbeatTime": "2"}], "images": [{"names": []}]}
    assert not changed(status=status)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"metadata": {"name": "n1", "labels": {"zone": "b"}}}, id="a label"),
        pytest.param({"spec": {"taints": []}}, id="a taint"),
        pytest.param({"spec": {**NODE["spec"], "unschedulable": True}}, id="a cordon"),
        pytest.param({"spec": {**NODE["spec"], "podCIDR": "10.1.0.0/24"}}, id="its pods' network"),
        pytest.param({"spec": {**NODE["spec"], "podCIDRs": ["10.1.0.0/24"]}}, id="its pods' networks"),
        pytest.param({"status": {**NODE["status"], "allocatable": {"cpu": "2"}}}, id="allocatable"),
        pytest.param({"status": {**NODE["status"], "capacity": {"cpu": "8"}}}, id="capacity"),
    ],
)
def test_what_the_summary_is_made_of_matters(parts: dict[str, Any]) -> None:
    assert changed(**parts)


def test_a_node_without_status_can_be_read() -> None:
    assert substance(b'{"metadata":{"name":"n"}}') == (b"", False, b"", b"", b"", b"", b"", b"")


def amounts(memory: str) -> dict[str, Any]:
    return {**NODE, "status": {**NODE["status"], "allocatable": {"cpu": "3", "memory": memory}}}


def allocatable(known: KnownNodes) -> list[Any]:
    return [equal.shape["allocatable"] for equal in known.alike()]


def told(*memories: str) -> list[str]:
    """Return the published values of a node's memory as it changes."""
    known, found = KnownNodes(), []
    for memory in memories:
        known.put(amounts(memory))
        found += [each["memory"] for each in allocatable(known)]
    return found


def test_amounts_that_tremble_are_told_once() -> None:
    assert told("1000Mi", "1009Mi", "991Mi", "1000Mi") == ["1000Mi"] * 4


def test_amounts_that_drift_away_are_told_when_they_are_one_per_cent_off() -> None:
    assert told("1000Mi", "995Mi", "990Mi", "985Mi") == ["1000Mi", "1000Mi", "990Mi", "990Mi"]


def test_amounts_in_other_words_are_the_same_amounts() -> None:
    assert told("1Gi", "1024Mi") == ["1Gi", "1Gi"]


def test_a_node_that_came_back_tells_its_amounts_anew() -> None:
    known = KnownNodes()
    known.put(amounts("1000Mi"))
    known.remove("n1")
    assert allocatable(known) == []
    known.put(amounts("1001Mi"))
    assert allocatable(known) == [{"cpu": "3", "memory": "1001Mi"}]


def test_a_level_with_less_detail_takes_back_what_was_told() -> None:
    full = stored(summarise([NODE], version="0.1.0", properties={"tier": "gold"}))
    patch = decide(summarise([NODE], detail="sums", version="0.1.0"), full)
    assert patch == {
        "metadata": {
            "labels": {"zone": None, "tier": None},
            "annotations": {"multicluster/node-shapes": None, "multicluster/cluster-properties": None},
        }
    }


def test_an_upgraded_agent_tells_its_version() -> None:
    old = stored(summarise([NODE], version="0.1.0"))
    patch = decide(summarise([NODE], version="0.2.0"), old)
    assert patch == {"metadata": {"annotations": {"multicluster/agent-version": "0.2.0"}}}


def test_later_properties_win_and_what_cannot_be_a_label_is_left_out() -> None:
    claims = {"id.k8s.io": "c1", "region": "eu", "long": "x" * 64, "words": "two words", "-bad": "x"}
    ours = {"multicluster.admiralty.io/target-name": "x", "virtual-kubelet.io/provider": "x", "multicluster/a": "b"}
    assert properties([claims, ours, {"region": "us"}]) == {"id.k8s.io": "c1", "region": "us"}
