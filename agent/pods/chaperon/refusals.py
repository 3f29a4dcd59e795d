"""Status of a chaperon whose delegate is refused in this cluster, or gets no node. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from agent.api import names
from agent.api.conditions import PODS_CREATED, find_condition

CONDITION = "multicluster/WithinPolicy"
"""Condition of a refused chaperon; its message is the Source whose policy refuses it."""

UNSCHEDULED_SECONDS = 10.0
"""Seconds after which a running scheduler has considered a delegate, or is overloaded."""
NO_SCHEDULER = (
    f"no scheduler {names.SCHEDULER_CANDIDATE} runs in this cluster, so that its source's pods of this kind (mode"
    " reserve; every pod of an Admiralty that is not annotated no-reservation) get no node here: install the chart with"
    " candidateScheduler.enabled=true"
)


def refused(reason: str, by: str = "", *, passing: bool = False) -> dict[str, Any]:
    """Return the status of a chaperon whose pod is refused, for its source to report.

    :param by: the Source whose policy forbids the pod; empty if the API server refuses it
    :param passing: whether no pod at all can be created in this cluster for now
    """
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Refused", "message": reason}]
    if by:
        conditions.append({"type": CONDITION, "status": "False", "reason": "Refused", "message": by})
    if passing:
        told = {"type": PODS_CREATED, "status": "False", "reason": "Failing", "message": reason}
        conditions.append(told)
    return {"conditions": conditions}


def unscheduled_in(pod: Mapping[str, Any], now: datetime, created: datetime) -> float | None:
    """Return the seconds until a delegate counts as ignored by every candidate scheduler; None for any other
    delegate."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("schedulerName") != names.SCHEDULER_CANDIDATE or spec.get("nodeName"):
        return None
    if pod["metadata"].get("deletionTimestamp") or find_condition(status.get("conditions"), "PodScheduled"):
        return None
    return (created + timedelta(seconds=UNSCHEDULED_SECONDS) - now).total_seconds()


def unscheduled(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of an ignored delegate. Sources of any implementation then try other targets."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_SCHEDULER}
    return {**status, "conditions": [*(status.get("conditions") or ()), condition]}


_MOST_GATES = 5


def with_gates(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod's status with the names of its scheduling gates, which API servers do not write into the message."""
    status: Mapping[str, Any] = pod.get("status") or {}
    gates = [gate["name"] for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
    if not gates:
        return status
    listed = ", ".join(gates[:_MOST_GATES]) + (", ..." if len(gates) > _MOST_GATES else "")
    conditions = [
        {**each, "message": f"{each.get('message') or 'it is gated'}: {listed}"}
        if each.get("reason") == "SchedulingGated"
        else each
        for each in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}
