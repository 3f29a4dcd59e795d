"""A chaperon in mode `reserve`, as the source sees it: what its annotations and its status come to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.api import names

State = Literal["pending", "reserved", "unschedulable", "refused", "bound"]

NEGATIVE: frozenset[State] = frozenset(("unschedulable", "refused"))


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
    state: State
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


def see(
    chaperon: Mapping[str, Any], node_name: str, *, ready: bool, now: float, before: CandidateStatus | None = None
) -> CandidateStatus:
    """A chaperon in the target of a virtual node; `before` is what this process saw of that one last."""
    metadata = chaperon["metadata"]
    annotations = metadata.get("annotations") or {}
    allowed = names.ANNOTATION_IS_ALLOWED in annotations
    status = chaperon.get("status") or {}
    state, reason = _state(status, annotations, allowed)
    asked = _number(annotations.get(names.ANNOTATION_RESERVE_ROUND)) or 0
    ended = _number(annotations.get(names.ANNOTATION_RESERVE_ENDED))
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
        round=max(asked, ended or 0),
        ended=ended is not None and ended >= asked and not allowed,
        since=before.since if before is not None and same else now,
        preempting=bool(status.get("nominatedNodeName")),
    )


def _state(status: Mapping[str, Any], annotations: Mapping[str, str], allowed: bool) -> tuple[State, str]:
    """A scheduler leaves the condition of an earlier failure until it binds, so a reservation counts for more, until
    leave is given: then it is the annotation that may be left over.
    """
    conditions = status.get("conditions") or ()
    condition: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
    if status.get("phase") in ("Running", "Succeeded", "Failed") or condition.get("status") == "True":
        return "bound", ""
    if names.ANNOTATION_IS_RESERVED in annotations and not allowed:
        return "reserved", ""
    reason = condition.get("reason")
    message = str(condition.get("message") or reason or "")
    if reason == "Refused":
        return "refused", message
    # With a nominated node preemption is under way (ruling 9).
    if reason == "SchedulingGated" or (reason == "Unschedulable" and not status.get("nominatedNodeName")):
        return "unschedulable", message
    if names.ANNOTATION_IS_RESERVED in annotations:
        return "reserved", ""
    return "pending", message


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None and len(text) < 20 else None
    except ValueError:
        return None
