"""State of a candidate, from its chaperon in a target: whether its pod is scheduled, and may start. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.api import names
from agent.api.conditions import find_condition
from agent.model.podstate.proxy import ENDED
from agent.model.podstate.reservation import latest_round, round_is_over

Scheduling = Literal["pending", "gated", "unschedulable", "refused", "bound"]

CandidateState = Literal["pending", "reserved", "unschedulable", "refused", "bound"]

NEGATIVE: frozenset[CandidateState] = frozenset(("unschedulable", "refused"))


def scheduling_of(status: Mapping[str, Any]) -> tuple[Scheduling, str]:
    """Return the scheduling state of a chaperon's pod, and the message if it has no node.

    It is *refused* if the target does not even create the pod. Unschedulable with a nominated node means
    preemption, and counts as pending.
    """
    condition = find_condition(status.get("conditions"), "PodScheduled") or {}
    if status.get("phase") in ("Running", *ENDED) or condition.get("status") == "True":
        return "bound", ""
    reason = condition.get("reason")
    message = str(condition.get("message") or reason or "")
    if reason == "Refused":
        return "refused", message
    if reason == "SchedulingGated":
        return "gated", message
    if reason == "Unschedulable" and not status.get("nominatedNodeName"):
        return "unschedulable", message
    return "pending", message


def is_refused(status: Mapping[str, Any]) -> bool:
    """Return whether the target has refused to create the pod."""
    return (find_condition(status.get("conditions"), "PodScheduled") or {}).get("reason") == "Refused"


def is_allowed(annotations: Mapping[str, str]) -> bool:
    """Return whether the source has allowed the candidate to start."""
    return names.ANNOTATION_IS_ALLOWED in annotations


def may_start(scheduler_name: str | None, annotations: Mapping[str, str]) -> bool:
    """Return whether the target's scheduler may bind the pod; in mode `reserve` it waits until it is allowed."""
    return scheduler_name != names.SCHEDULER_CANDIDATE or is_allowed(annotations)


def taken_up_by(chaperon: Mapping[str, Any]) -> Literal["", "agent", "scheduler"]:
    """Return which component in the target has processed a chaperon: empty for none, else `agent` or `scheduler`.

    `agent` means that no scheduler has processed the delegate, or that the chaperon is being deleted.
    """
    if chaperon["metadata"].get("deletionTimestamp"):
        return "agent"
    status = chaperon.get("status") or {}
    if find_condition(status.get("conditions"), "PodScheduled"):
        return "agent" if is_refused(status) else "scheduler"
    return "scheduler" if scheduling_of(status)[0] == "bound" else ""


@dataclass(frozen=True)
class CandidateStatus:
    """Observed state of one candidate."""

    node_name: str
    """Virtual node of its target."""
    uid: str
    version: str
    ready: bool
    """Whether the target answers: if not, this state may be outdated."""
    going: bool
    """Whether it is being deleted. Its delegate runs until then."""
    allowed: bool
    state: CandidateState
    reason: str
    """Reason of a refusal; for a pending candidate, its scheduler's last message."""
    round: int
    ended: bool
    """Whether the target makes no new reservation before the source requests the next round."""
    since: float
    """Monotonic time in seconds when this process first observed it in this state."""
    preempting: bool = False
    """Whether its scheduler is preempting other pods for it, which takes as long as these take to terminate."""

    @property
    def live(self) -> bool:
        """Whether its chaperon can be written."""
        return self.ready and not self.going


def observe(
    chaperon: Mapping[str, Any], node_name: str, *, ready: bool, now: float, before: CandidateStatus | None = None
) -> CandidateStatus:
    """Return the state of a chaperon in the target of a virtual node; `before` is this process's last observation."""
    metadata = chaperon["metadata"]
    annotations = metadata.get("annotations") or {}
    allowed = is_allowed(annotations)
    status = chaperon.get("status") or {}
    state, reason = _state(status, annotations, allowed)
    same = before is not None and (before.uid, before.allowed, before.state) == (metadata["uid"], allowed, state)
    return CandidateStatus(
        node_name=node_name,
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        ready=ready,
        going="deletionTimestamp" in metadata,
        allowed=allowed,
        state=state,
        reason=reason,
        round=latest_round(annotations),
        ended=round_is_over(annotations) and not allowed,
        since=before.since if before is not None and same else now,
        preempting=bool(status.get("nominatedNodeName")),
    )


def _state(status: Mapping[str, Any], annotations: Mapping[str, str], allowed: bool) -> tuple[CandidateState, str]:
    """Return state and message. A scheduler keeps the condition of an earlier failure until it binds, so a
    reservation takes precedence. Once the candidate is allowed, the condition does, since the annotation may be
    left over.
    """
    scheduling, message = scheduling_of(status)
    if scheduling == "bound":
        return "bound", ""
    reserved = names.ANNOTATION_IS_RESERVED in annotations
    if reserved and not allowed:
        return "reserved", ""
    if scheduling == "refused":
        return "refused", message
    if scheduling in ("gated", "unschedulable"):
        return "unschedulable", message
    return ("reserved", "") if reserved else ("pending", message)
