"""Pods on virtual nodes that are neither proxy pods nor DaemonSets'."""

from typing import Any

import pytest

from agent.api import names
from agent.model.misplaced import Remedy, message, remedy

BOUND = [{"type": "PodScheduled", "status": "True"}]
REPLICA_SET = [{"kind": "ReplicaSet", "apiVersion": "apps/v1", "controller": True}]
DAEMON_SET = [{"kind": "DaemonSet", "apiVersion": "apps/v1", "controller": True}]


def pod(owners: Any = REPLICA_SET, conditions: Any = BOUND, phase: str = "Pending", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "ownerReferences": owners},
        "spec": spec,
        "status": {"phase": phase, "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(pod(), Remedy.EVICT, id="a scheduler has bound it"),
        pytest.param(pod(owners=None), Remedy.REPORT, id="no controller would make another"),
        pytest.param(pod(conditions=None), Remedy.REPORT, id="its user has named the node"),
        pytest.param(pod(owners=DAEMON_SET), Remedy.NONE, id="a DaemonSet's"),
        pytest.param(pod(phase="Failed"), Remedy.NONE, id="ended"),
        pytest.param(pod(schedulerName=names.SCHEDULER_PROXY), Remedy.NONE, id="a proxy pod"),
    ],
)
def test_the_remedy_for_a_pod_on_a_virtual_node(given: dict[str, Any], want: Remedy) -> None:
    assert remedy(given) is want


def test_the_event_names_the_node_and_what_becomes_of_the_pod() -> None:
    assert "node admiralty-us" in message("admiralty-us", Remedy.EVICT)
    assert "create it again without spec.nodeName" in message("admiralty-us", Remedy.REPORT)
