"""What the status of a chaperon says of a delegate that is not accepted here, or gets no node. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from agent.api import names
from agent.api.conditions import PODS_CREATED, find_condition

CONDITION = "multicluster/WithinPolicy"
"""Condition of a chaperon that is refused; its message is the Source whose policy refuses it."""

UNSCHEDULED_SECONDS = 10.0
"""A scheduler that is there has looked at a delegate by then, or is so busy that others are not worse."""
NO_SCHEDULER = (
    f"no scheduler {names.SCHEDULER_CANDIDATE} runs in this cluster, so that its source's pods of this kind (mode"
    " reserve; every pod of an Admiralty that is not annotated no-reservation) get no node here: install the chart with"
    " candidateScheduler.enabled=true"
)


def refused(reason: str, by: str = "", *, passing: bool = False) -> dict[str, Any]:
    """Status of a chaperon whose pod is not accepted, so that its source can say why.

    :param by: the Source whose policy does not allow it; empty if the API server refuses
    :param passing: whether no pod can be created here for now, whatever is in it
    """
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Refused", "message": reason}]
    if by:
        conditions.append({"type": CONDITION, "status": "False", "reason": "Refused", "message": by})
    if passing:
        told = {"type": PODS_CREATED, "status": "False", "reason": "Failing", "message": reason}
        conditions.append(told)
    return {"conditions": conditions}


def unscheduled_in(pod: Mapping[str, Any], now: datetime, created: datetime) -> float | None:
    """In how many seconds a delegate counts as looked at by no candidate scheduler; None for any other delegate."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("schedulerName") != names.SCHEDULER_CANDIDATE or spec.get("nodeName"):
        return None
    if pod["metadata"].get("deletionTimestamp") or find_condition(status.get("conditions"), "PodScheduled"):
        return None
    return (created + timedelta(seconds=UNSCHEDULED_SECONDS) - now).total_seconds()


def unscheduled(status: Mapping[str, Any]) -> dict[str, Any]:
    """The status of such a delegate, so that its source goes on to other targets, whoever it is."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_SCHEDULER}
    return {**status, "conditions": [*(status.get("conditions") or ()), condition]}


_MOST_GATES = 5


def with_gates(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status of a pod; where scheduling gates block it, with their names, which API servers do not write."""
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
