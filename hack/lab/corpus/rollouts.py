"""Rollout state of a workload, as `kubectl rollout status` and `kubectl wait` define it. Pure."""

from collections.abc import Callable
from typing import Any

Raw = dict[str, Any]


def waiting(obj: Raw) -> str:
    """Return what a workload still waits for; empty if it has rolled out, or if its kind has no rollouts."""
    judge = _JUDGES.get(obj["kind"])
    if judge is None:
        return ""
    seen = obj.get("status", {}).get("observedGeneration", 0)
    if obj["kind"] in _COUNT_GENERATIONS and seen < obj["metadata"].get("generation", 0):
        return "its controller has not seen it"
    return judge(obj.get("spec", {}), obj.get("status", {}))


def _deployment(spec: Raw, status: Raw) -> str:
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    if conditions.get("Progressing", {}).get("reason") == "ProgressDeadlineExceeded":
        return "its progress deadline is exceeded"
    wanted, total = spec.get("replicas", 1), status.get("replicas", 0)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < wanted:
        return f"{updated} of {wanted} pods are updated"
    if total > updated:
        return f"{total - updated} old pods are left"
    return f"{available} of {updated} pods are available" if available < updated else ""


def _stateful_set(spec: Raw, status: Raw) -> str:
    wanted, ready, updated = spec.get("replicas", 1), status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
    if ready < wanted:
        return f"{ready} of {wanted} pods are ready"
    strategy = spec.get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    if strategy.get("type") != "OnDelete" and updated < wanted - partition:
        return f"{updated} of {wanted - partition} pods are updated"
    return ""


def _daemon_set(spec: Raw, status: Raw) -> str:
    wanted, updated = status.get("desiredNumberScheduled", 0), status.get("updatedNumberScheduled", 0)
    available = status.get("numberAvailable", 0)
    if (spec.get("updateStrategy") or {}).get("type") != "OnDelete" and updated < wanted:
        return f"{updated} of {wanted} pods are updated"
    return f"{available} of {wanted} pods are available" if available < wanted else ""


def _replica_set(spec: Raw, status: Raw) -> str:
    wanted, available = spec.get("replicas", 1), status.get("availableReplicas", 0)
    return f"{available} of {wanted} pods are available" if available < wanted else ""


def _job(spec: Raw, status: Raw) -> str:
    held = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    if held & {"Complete", "Failed"} or spec.get("suspend"):
        return ""
    return f"{status.get('succeeded', 0)} pods have succeeded"


def _claim(spec: Raw, status: Raw) -> str:
    return "" if status.get("phase") == "Bound" else f"it is {status.get('phase', 'new')}"


def _pod(spec: Raw, status: Raw) -> str:
    phase = status.get("phase", "Pending")
    if phase != "Running":
        return "it is Pending" if phase == "Pending" else ""
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    return "" if ready else "it is not Ready"


_COUNT_GENERATIONS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_JUDGES: dict[str, Callable[[Raw, Raw], str]] = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "ReplicaSet": _replica_set,
    "Job": _job,
    "PersistentVolumeClaim": _claim,
    "Pod": _pod,
}
