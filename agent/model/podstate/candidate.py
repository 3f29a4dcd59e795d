"""What a chaperon in a target tells of its pod there: whether that is scheduled, and may start. Pure."""

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
    """Whether the pod has a node, by its chaperon's status, and what has been said of why not.

    It is *refused* where the target does not even make it. Unschedulable with a nominated node is preemption under way,
    and pending.
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
    """Whether the target says that it does not make the pod."""
    return (find_condition(status.get("conditions"), "PodScheduled") or {}).get("reason") == "Refused"


def is_allowed(annotations: Mapping[str, str]) -> bool:
    """Whether the source has allowed the candidate to start."""
    return names.ANNOTATION_IS_ALLOWED in annotations


def may_start(scheduler_name: str | None, annotations: Mapping[str, str]) -> bool:
    """Whether the scheduler in the target may bind the pod: that of mode `reserve` waits until it is allowed."""
    return scheduler_name != names.SCHEDULER_CANDIDATE or is_allowed(annotations)


def taken_up_by(chaperon: Mapping[str, Any]) -> Literal["", "agent", "scheduler"]:
    """Who in the target has shown an interest in a chaperon: empty for nobody, `agent` for whoever tells of it without
    a scheduler's having looked at the delegate, or deletes it.
    """
    if chaperon["metadata"].get("deletionTimestamp"):
        return "agent"
    status = chaperon.get("status") or {}
    if find_condition(status.get("conditions"), "PodScheduled"):
        return "agent" if is_refused(status) else "scheduler"
    return "scheduler" if scheduling_of(status)[0] == "bound" else ""


@dataclass(frozen=True)
class CandidateStatus:
    """One candidate, or what has become of it."""

    node_name: str
    """Virtual node of the target it is in."""
    uid: str
    version: str
    ready: bool
    """Whether the target answers: if not, this is old news."""
    going: bool
    """It is being deleted. Its delegate runs until it is gone."""
    allowed: bool
    state: CandidateState
    reason: str
    """Of a refusal; of a candidate that is pending, what its scheduler has said of it so far."""
    round: int
    ended: bool
    """The target makes no new reservation before the source asks for the next round."""
    since: float
    """When this process saw it in this state first, in seconds of a clock that is never set."""
    preempting: bool = False
    """Whether its scheduler makes room for it, which takes as long as other pods take to end."""

    @property
    def live(self) -> bool:
        """Whether there is something to write to."""
        return self.ready and not self.going


def observe(
    chaperon: Mapping[str, Any], node_name: str, *, ready: bool, now: float, before: CandidateStatus | None = None
) -> CandidateStatus:
    """A chaperon in the target of a virtual node; `before` is what this process saw of that one last."""
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
    """A scheduler leaves the condition of an earlier failure until it binds, so a reservation counts for more, until
    it is allowed: then it is the annotation that may be left over.
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
