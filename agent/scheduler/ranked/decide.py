"""The next step for one proxy pod in mode `ranked`: pure (ruling 1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from agent.model.podstate import claim_stands, scheduling_of, taken_up_by
from agent.scheduler.failed_targets import LONGEST_RETRY, FailedTarget
from agent.scheduling.ranking import Ranking
from agent.scheduling.snapshot import TargetInfo

Outcome = Literal["bind", "refused", "wait", "gated"]


class RankedPod(msgspec.Struct, frozen=True):
    """A proxy pod that is not bound, its claim, and the chaperon there."""

    claim: str
    """Virtual node of the claim, empty for none."""
    claim_known: bool
    """Whether the claim's target is connected."""
    claim_ready: bool
    claim_held: bool
    """Whether the pod still carries the finalizer of the claim's target."""
    claim_unsent: bool
    """Whether this process wrote the claim last and knows that no chaperon has left for its target."""
    claim_state: str
    """Why it is not ready, in words."""
    chaperon: Mapping[str, Any] | None
    """In the claim's target."""
    failed: Mapping[str, FailedTarget]
    ranking: Ranking
    now: datetime
    dwell: timedelta
    """Shortest stay in a target that refused the pod before it moves to one that did so earlier."""
    closed: str = ""
    """Why no pod of its namespace gets a target anew, empty when pods may."""
    neglected: str = ""
    """Why the chaperon counts as refused although nobody has said so, empty when it does not. Gates that nobody in the
    target opens count."""
    misplaced: str = ""
    """Why the pod is to leave the claim's target although that has not refused it, empty when it need not."""
    spared: bool = False
    """Whether the pod stays with the claim's target whatever that says: its Placement may decide for it again."""


class Bind(msgspec.Struct, frozen=True):
    """The delegate has a node: bind the proxy pod to the claim's virtual node."""


@dataclass(frozen=True)
class Claim:
    """Promise the pod to one target, or renew that promise, then create the chaperon there.

    A chaperon leaves only after a write that the pod's version has guarded, whatever was claimed before: two replicas
    that both think that they lead, and know different things of the targets, then cannot send it to two of them.
    """

    node_name: str


class GiveUp(msgspec.Struct, frozen=True):
    """Remember why the claim's target could not take the pod and delete the chaperon there."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """Nothing to do until something changes, or some seconds have passed; `message` says why the pod waits."""

    message: str = ""
    seconds: float | None = None


class Stop(msgspec.Struct, frozen=True):
    """The pod gets no target before its namespace is enabled; `message` says so."""

    message: str


Step = Bind | Claim | GiveUp | Wait | Stop


def fast_path(chaperon: Mapping[str, Any]) -> Bind | Wait | None:
    """What follows from the chaperon in a target that is ready, before anything else is looked at: for most pods all
    there is to know. None when it has been refused, or is gated there, and the other targets count.
    """
    if chaperon["metadata"].get("deletionTimestamp"):
        return Wait()
    outcome, _ = delegate_outcome(chaperon.get("status") or {})
    if outcome == "bind":
        return Bind()
    return Wait() if outcome == "wait" else None


def decide(view: RankedPod) -> Step:
    """The next step. Where its namespace is not enabled, a pod keeps the chaperon that it has and gets no other."""
    step = _next(view)
    if not view.closed:
        return step
    if view.chaperon is not None:
        return Wait(step.reason) if isinstance(step, GiveUp) else step
    return step if isinstance(step, Wait) and step.message else Stop(view.closed)


def _next(view: RankedPod) -> Step:
    if not claim_stands(view.claim, held=view.claim_held, connected=view.claim_known):
        return _claim(view)
    if not view.claim_known:
        return Wait("the pod is claimed by this target, which is not connected")
    if view.chaperon is None:
        return _without_chaperon(view)
    if not view.claim_ready:
        return Wait(f"the pod is claimed by this target: {view.claim_state}")
    settled = fast_path(view.chaperon)
    if view.neglected and not taken_up_by(view.chaperon):
        return _neglected(view)
    if view.misplaced and not isinstance(settled, Bind) and not view.chaperon["metadata"].get("deletionTimestamp"):
        return GiveUp(view.misplaced)
    if settled is not None:
        return settled
    outcome, reason = delegate_outcome(view.chaperon.get("status") or {})
    if view.spared:
        return Wait(reason)
    return _gated(view, reason) if outcome == "gated" else _refused(view, reason)


def _claim(view: RankedPod) -> Step:
    choice = _choice(view)
    return Claim(choice) if choice else Wait("", _left(view, _retries(view)))


def _without_chaperon(view: RankedPod) -> Step:
    """The claim's target has no chaperon: not yet, or not any more. Only a target that answers can tell."""
    if not view.claim_ready:
        return _claim(view) if view.claim_unsent else Wait(f"the pod is claimed by this target: {view.claim_state}")
    feasible = {target.node_name for target in (*view.ranking.order, *view.ranking.pending)}
    if (view.claim in feasible and view.claim not in view.failed) or _choice(view) == view.claim:
        return Claim(view.claim)
    return _claim(view)


def _neglected(view: RankedPod) -> Step:
    """Nobody in the claim's target does anything: on to another that can take the pod, where there is one."""
    others = any(target.node_name != view.claim for target in view.ranking.order[: view.ranking.untried])
    again, seconds = _repeatable(view, None)
    return GiveUp(view.neglected) if others or again else Wait(view.neglected, seconds)


def _gated(view: RankedPod, reason: str) -> Step:
    """A queue of the claim's target holds the delegate: on to a target that was not tried yet, after a while.

    Where all have been tried the pod keeps its place in the last queue.
    """
    others = any(target.node_name != view.claim for target in view.ranking.order[: view.ranking.untried])
    return GiveUp(reason) if view.neglected and others else Wait(reason)


def _refused(view: RankedPod, reason: str) -> Step:
    """The claim's target cannot take the pod: on to the next, or back to the best, where it stays for an autoscaler."""
    if any(target.node_name != view.claim for target in view.ranking.order[: view.ranking.untried]):
        return GiveUp(reason)
    here = view.failed.get(view.claim)
    again, seconds = _repeatable(view, here.may_repeat_at(view.dwell) if here else None)
    if again:
        return GiveUp(reason)
    # Where no target has room, one is as good as another.
    stays = not view.ranking.order and any(target.node_name == view.claim for target in view.ranking.pending)
    if stays or view.claim in view.failed or view.claim == _best(view):
        return Wait(reason, seconds)
    return GiveUp(reason)


def _choice(view: RankedPod) -> str:
    """Virtual node to go to: untried first, then tried but with room by now, then where it waits best; or none."""
    if view.ranking.untried:
        return view.ranking.order[0].node_name
    again, _ = _repeatable(view, None)
    return again or _best(view)


def _best(view: RankedPod) -> str:
    """Where a pod waits that no target can take now: one candidate, so that one autoscaler reacts."""
    order = [target for target in view.ranking.order if not _is_too_early(view, target)]
    if order:
        return max(order, key=view.ranking.merit).node_name
    pending = () if view.ranking.order else view.ranking.pending
    return next((target.node_name for target in pending if not _is_too_early(view, target)), "")


def _is_too_early(view: RankedPod, target: TargetInfo) -> bool:
    """Whether a target did not take the pod's chaperon a moment ago, and is not to be asked again yet."""
    attempt = view.failed.get(target.node_name)
    due = attempt.may_retry_at() if attempt is not None else None
    # What is further away was written by a clock that has been set since.
    return due is not None and view.now < due <= view.now + LONGEST_RETRY


def _retries(view: RankedPod) -> list[datetime]:
    """When targets that did not take the pod's chaperon may be asked again."""
    targets = view.ranking.order or view.ranking.pending
    failed = (view.failed.get(target.node_name) for target in targets)
    return [due for attempt in failed if attempt is not None and (due := attempt.may_retry_at()) is not None]


def _left(view: RankedPod, moments: list[datetime]) -> float | None:
    return (min(moments) - view.now).total_seconds() if moments else None


def _repeatable(view: RankedPod, not_before: datetime | None) -> tuple[str, float | None]:
    """The best other target that refused the pod a while ago and tells that it has room now (ruling 9), or that did
    not take its chaperon then, so that nothing is known of its room.

    Where there is none yet: in how many seconds there may be. A pod that waits somewhere stays until `not_before`.
    """
    moments: list[datetime] = []
    for target in view.ranking.order[view.ranking.untried :]:
        attempt = view.failed.get(target.node_name)
        if attempt is None or not _is_repeatable(view, target, attempt):
            continue
        nowhere = attempt.refused and view.chaperon is None
        due = attempt.may_retry_at() if nowhere else attempt.may_repeat_at(view.dwell)
        due = max(filter(None, (due, not_before)), default=view.now)
        if due <= view.now or (nowhere and not _is_too_early(view, target)):
            return target.node_name, None
        moments.append(due)
    return "", _left(view, moments)


def _is_repeatable(view: RankedPod, target: TargetInfo, attempt: FailedTarget) -> bool:
    if target.node_name == view.claim:
        return attempt.refused and view.chaperon is None
    return attempt.refused or any(shape.free is not None for shape in target.shapes)


def is_gated(chaperon: Mapping[str, Any]) -> bool:
    """Whether the delegate has scheduling gates in the target."""
    return delegate_outcome(chaperon.get("status") or {})[0] == "gated"


GATED = "its delegate has scheduling gates in the target"


def delegate_outcome(status: Mapping[str, Any]) -> tuple[Outcome, str]:
    """What a chaperon's status means for its proxy pod, and the reason of a refusal or of waiting for gates."""
    scheduling, reason = scheduling_of(status)
    if scheduling == "bound":
        return "bind", ""
    if scheduling == "gated":
        return "gated", f"{GATED} ({reason}): see the controller there that opens its gates, such as a queue"
    return ("refused", reason) if scheduling in ("refused", "unschedulable") else ("wait", "")
