"""Decide how to answer a bind request of the scheduler. Pure (wire contract, 4.2; ruling 10)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.extender.wire import BindingArgs
from agent.model.podstate import hold_mark, is_allowed, round_is_over, round_of

NOT_ALLOWED = "not allowed"
ENDED = "reservation ended: waiting for its source to ask again"

STOPPING = "the extender is stopping: ask again"

Outcome = Literal["not_allowed", "ended", "refused", "gone", "superseded", "stopping"]


@dataclass(frozen=True)
class Pod:
    """The pod with the requested name."""

    uid: str
    owner_kind: str = ""
    """Kind of its controller; empty if it has none."""
    owner_name: str = ""
    owner_uid: str = ""
    node: str = ""
    deleting: bool = False


@dataclass(frozen=True)
class Chaperon:
    """The PodChaperon of the same name."""

    uid: str
    version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    deleting: bool = False
    applied: bool = False
    """True if a field manager owns fields of it by server-side apply."""


@dataclass(frozen=True)
class BindAttempt:
    """A bind request of the scheduler, with its pod and chaperon at this moment."""

    asked: BindingArgs
    pod: Pod | None
    chaperon: Chaperon | None
    hold: str
    """ID of this hold."""
    reserved: bool = False
    """True if this hold has marked the chaperon."""
    newest: bool = True
    """True if the scheduler has not sent another request for this pod since."""
    expired: bool = False
    stopping: bool = False


class Bind(msgspec.Struct, frozen=True):
    """Bind the pod: the source allows it."""


@dataclass(frozen=True)
class Reserve:
    """Mark on the chaperon that its candidate has a node, in the current round of its source."""

    uid: str
    """UID of the chaperon."""
    round: int
    applied: bool = False
    """As `applied` of the chaperon."""


@dataclass(frozen=True)
class Wait:
    """Wait until something changes, or the hold expires."""


class Refuse(msgspec.Struct, frozen=True):
    """Answer with an error.

    `clear`: remove the mark of this hold. `end`: also record that its round has ended.
    """

    reason: str
    outcome: Outcome
    clear: bool = False
    end: bool = False


Step = Bind | Reserve | Wait | Refuse


def decide(view: BindAttempt) -> Step:
    """Return the next step of a hold."""
    mark = hold_mark(view.chaperon.annotations) if view.chaperon else None
    ours = view.reserved and mark is not None and mark.id == view.hold
    if not view.newest or (view.reserved and not ours and _still_there(view)):
        return Refuse("the scheduler has asked again for this pod: only its last attempt counts", "superseded")
    reason = foreign(view.asked, view.pod, view.chaperon)
    if reason or view.chaperon is None:
        if view.reserved and _is_swept_away(view) and not (view.expired or view.stopping):
            return Wait()
        return Refuse(reason, "gone" if view.reserved else "refused", clear=ours and _still_there(view))
    annotations = view.chaperon.annotations
    if is_allowed(annotations):
        return Bind()
    if view.stopping:
        return Refuse(STOPPING, "stopping", clear=ours)
    by_rounds = names.LABEL_PARENT_CLUSTER_UID in view.chaperon.labels
    if view.expired:
        return Refuse(NOT_ALLOWED, "not_allowed", clear=ours, end=ours and by_rounds)
    if view.reserved:
        return Wait()
    if by_rounds and round_is_over(annotations):
        return Refuse(ENDED, "ended")
    return Reserve(view.chaperon.uid, round_of(annotations), view.chaperon.applied)


def foreign(asked: BindingArgs, pod: Pod | None, chaperon: Chaperon | None) -> str:
    """Return why a pod is no candidate of ours that waits for a node; empty if it is one."""
    what = f"pod {asked.namespace}/{asked.name}"
    if pod is None:
        return f"{what} does not exist any more"
    if pod.uid != asked.uid:
        return f"{what} has UID {pod.uid}, not {asked.uid}: it was deleted and created again"
    if pod.owner_kind != CHAPERONS.name or pod.owner_name != asked.name:
        return (
            f"{what} is not controlled by a {CHAPERONS.name} of its name: scheduler {names.SCHEDULER_CANDIDATE} is for"
            " candidates only, use another schedulerName"
        )
    if pod.node:
        return f"{what} is already bound to node {pod.node}"
    if pod.deleting:
        return f"{what} is being deleted"
    if chaperon is None:
        return f"{CHAPERONS.name} {asked.namespace}/{asked.name} does not exist any more"
    if chaperon.uid != pod.owner_uid:
        return f"{what} belongs to an earlier {CHAPERONS.name} of its name (UID {pod.owner_uid}, now {chaperon.uid})"
    if chaperon.deleting:
        return f"{CHAPERONS.name} {asked.namespace}/{asked.name} is being deleted"
    return ""


def _is_swept_away(view: BindAttempt) -> bool:
    """Return True if the pod is about to be deleted because its chaperon is.

    An answer before its deletion would make the scheduler write a condition and retry unnecessarily.
    """
    pod = view.pod
    return pod is not None and pod.uid == view.asked.uid and not pod.node and not _still_there(view)


def _still_there(view: BindAttempt) -> bool:
    """Return True if the chaperon of the pod exists and is not being deleted."""
    chaperon, pod = view.chaperon, view.pod
    return chaperon is not None and not chaperon.deleting and (pod is None or pod.owner_uid == chaperon.uid)
