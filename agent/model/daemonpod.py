"""Status of DaemonSet pods on virtual nodes, which have no kubelet. Pure.

The pods are Running and Ready, so that the rollout of their DaemonSet completes. They have no address, so that no
Service routes traffic to them, and no container statuses, since no container runs.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agent.api.conditions import condition_of, set_condition
from agent.model.diff import merge_patch
from agent.model.podstate import ENDED
from agent.model.proxypod import is_of_a_daemon_set, is_proxy

Raw = dict[str, Any]

REASON = "VirtualNode"
"""Reason in the status of such a pod, which `kubectl get pods` shows as STATUS."""
_CONDITIONS = ("Initialized", "ContainersReady", "Ready")


def message(node: str) -> str:
    """Return the message in the status of a DaemonSet's pod on a virtual node."""
    return (
        f"no container of this pod runs: node {node} stands for another cluster, and pods of DaemonSets here do not go"
        " there; it counts as ready so that the DaemonSet's rollout ends"
    )


def patch(pod: Mapping[str, Any], now: datetime) -> Raw:
    """Return the merge patch of a DaemonSet pod's status; {} if it is up to date or the pod has ended."""
    old: Raw = pod.get("status") or {}
    if old.get("phase") in ENDED:
        return {}
    text = message(pod["spec"]["nodeName"])
    conditions = old.get("conditions")
    for kind in _CONDITIONS:
        conditions = set_condition(conditions, kind, "True", REASON, text, now)
    wanted = {**old, "phase": "Running", "reason": REASON, "message": text, "conditions": conditions}
    changed = merge_patch(old, wanted)
    metadata = pod["metadata"]
    guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": guard, "status": changed} if changed else {}


def comes_again(pod: Mapping[str, Any]) -> bool:
    """Return True for a DaemonSet's pod on a virtual node: it runs nothing, and its controller recreates it."""
    return not is_proxy(pod) and is_of_a_daemon_set(pod)


def unplaced(pod: Mapping[str, Any]) -> str:
    """Return the node of an unschedulable DaemonSet pod, by its node affinity; empty for other pods."""
    scheduled = condition_of(pod, "PodScheduled") or {}
    if pod["spec"].get("nodeName") or scheduled.get("reason") != "Unschedulable":
        return ""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    found = {
        value
        for term in required.get("nodeSelectorTerms") or ()
        for field in term.get("matchFields") or ()
        if field.get("key") == "metadata.name" and field.get("operator") == "In"
        for value in field.get("values") or ()
    }
    return found.pop() if len(found) == 1 else ""
