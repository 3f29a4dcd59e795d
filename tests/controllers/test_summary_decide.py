"""What of the ClusterSummary has to change."""

from typing import Any

import msgspec
import pytest

from agent.api.names import ANNOTATION_NODE_SHAPES
from agent.controllers.summary.decide import decide, substance
from agent.model.summary import summarise

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
    assert decide([NODE], None) == summarise([NODE])


def test_nothing_is_written_while_the_summary_is_right() -> None:
    assert decide([NODE], stored(summarise([NODE]))) is None
    assert decide([], stored(summarise([]))) is None


def test_what_was_edited_by_hand_is_repaired_with_the_smallest_patch() -> None:
    edited = stored(summarise([NODE]))
    edited["capacity"] = {"cpu": "400", "gpu": "1"}
    edited["metadata"] = {
        **edited["metadata"],
        "labels": {"mine": "x"},
        "annotations": {**edited["metadata"]["annotations"], "team": "x"},
    }
    assert decide([NODE], edited) == {
        "capacity": {"cpu": "4", "gpu": None},
        "metadata": {"labels": {"mine": None, "zone": "a"}},
    }


def test_shapes_that_have_become_too_long_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    current = stored(summarise([NODE]))
    monkeypatch.setattr("agent.model.summary.SHAPES_LIMIT", 10)
    assert decide([NODE], current) == {"metadata": {"annotations": {ANNOTATION_NODE_SHAPES: None}}}


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
        pytest.param({"status": {**NODE["status"], "allocatable": {"cpu": "2"}}}, id="allocatable"),
        pytest.param({"status": {**NODE["status"], "capacity": {"cpu": "8"}}}, id="capacity"),
    ],
)
def test_what_the_summary_is_made_of_matters(parts: dict[str, Any]) -> None:
    assert changed(**parts)


def test_a_node_without_status_can_be_read() -> None:
    assert substance(b'{"metadata":{"name":"n"}}') == (b"", False, b"", b"", b"")
