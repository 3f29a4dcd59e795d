import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.api.conditions import find_condition
from agent.model.daemonpod import comes_again, patch, unplaced

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STAMP = "2026-01-01T12:00:00Z"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": STAMP}


def pod(**status: Any) -> dict[str, Any]:
    metadata = {"name": "agent-x", "uid": "u1", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"nodeName": "admiralty-default-us"}, "status": status}


def after(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "status": {**found["status"], **patch(found, NOON)["status"]}}


def test_a_pod_that_is_pending_becomes_running_and_ready_and_says_what_it_is() -> None:
    told = after(pod(phase="Pending", conditions=[SCHEDULED]))["status"]
    assert (told["phase"], told["reason"]) == ("Running", "VirtualNode")
    assert told["message"].startswith("no container of this pod runs: node admiralty-default-us stands for another")
    ready = find_condition(told["conditions"], "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"], ready["message"]) == ("True", "VirtualNode", told["message"])
    assert find_condition(told["conditions"], "PodScheduled") == SCHEDULED


def test_it_has_neither_address_nor_containers() -> None:
    assert patch(pod(phase="Pending"), NOON)["status"].keys() == {"phase", "reason", "message", "conditions"}


def test_only_the_pod_that_was_seen_is_written_to() -> None:
    assert patch(pod(), NOON)["metadata"] == {"uid": "u1", "resourceVersion": "7"}


def test_what_says_all_is_left_alone() -> None:
    assert patch(after(pod(phase="Pending")), NOON + timedelta(hours=1)) == {}


def test_what_node_lifecycle_has_changed_is_told_again() -> None:
    changed = copy.deepcopy(after(pod(phase="Pending")))
    for condition in changed["status"]["conditions"]:
        condition["status"] = "False" if condition["type"] == "Ready" else condition["status"]
    ready = find_condition(after(changed)["status"]["conditions"], "Ready")
    assert ready is not None
    assert ready["status"] == "True"


def test_what_has_ended_stays_so() -> None:
    assert patch(pod(phase="Failed", reason="Evicted"), NOON) == {}


def test_only_pods_of_daemon_sets_that_are_no_proxies_come_again() -> None:
    def made(kind: str, scheduler: str = "default-scheduler", *, controller: bool = True) -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "log", "uid": "u", "controller": controller}
        return {"metadata": {"ownerReferences": [owner]}, "spec": {"schedulerName": scheduler}}

    assert comes_again(made("DaemonSet"))
    assert not comes_again(made("DaemonSet", "admiralty-proxy"))
    assert not comes_again(made("DaemonSet", controller=False))
    assert not comes_again(made("ReplicaSet"))


REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def waiting(*nodes: str, **status: Any) -> dict[str, Any]:
    """Return a pod as the DaemonSet controller creates it."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"metadata": {}, "spec": {"affinity": {"nodeAffinity": required}}, "status": status}


def test_a_pod_for_which_its_scheduler_finds_no_room_is_for_the_node_that_it_names() -> None:
    assert unplaced(waiting("eu", conditions=[REFUSED])) == "eu"


def test_a_pod_that_its_scheduler_has_not_looked_at_or_that_names_no_one_node_is_left_to_it() -> None:
    assert unplaced(waiting("eu")) == ""
    assert unplaced(waiting("eu", "us", conditions=[REFUSED])) == ""
    assert unplaced(waiting(conditions=[REFUSED])) == ""
    placed = waiting("eu", conditions=[REFUSED])
    placed["spec"]["nodeName"] = "eu"
    assert unplaced(placed) == ""
