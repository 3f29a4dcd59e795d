"""Decide the next step for one proxy pod in mode `ranked`. Pure (ruling 1)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from agent.model.podstate import claim_stands, scheduling_of, taken_up_by
from agent.ranking.rank import Ranking
from agent.ranking.snapshot import TargetInfo
from agent.scheduler.failed_targets import LONGEST_RETRY, FailedTarget

Outcome = Literal["bind", "refused", "wait", "gated"]


class RankedPod(msgspec.Struct, frozen=True):
    """An unbound proxy pod, its claim, and the chaperon in the claim's target."""

    claim: str
    """Virtual node of the claim; empty if unclaimed."""
    claim_known: bool
    """True if the claim's target is connected."""
    claim_ready: bool
    claim_held: bool
    """True if the pod still carries the finalizer of the claim's target."""
    claim_unsent: bool
    """True if this process wrote the claim last and has sent no chaperon to its target."""
    claim_state: str
    """Why the target is not ready, as text."""
    chaperon: Mapping[str, Any] | None
    """The chaperon in the claim's target; None if it does not exist."""
    failed: Mapping[str, FailedTarget]
    ranking: Ranking
    now: datetime
    dwell: timedelta
    """Minimum stay in a target that refused the pod before it moves to another that refused it earlier."""
    closed: str = ""
    """Why no pod of its namespace gets a new target; empty if pods may."""
    neglected: str = ""
    """Why the chaperon counts as refused without an answer from the target; empty if it does not. Scheduling gates that
    no controller in the target removes also count.
    """
    misplaced: str = ""
    """Why the pod has to leave the claim's target although the target has not refused it; empty if it need not."""
    spared: bool = False
    """True if the pod stays with the claim's target even if refused: its Placement may decide for that target again."""


class Bind(msgspec.Struct, frozen=True):
    """Bind the proxy pod to the claim's virtual node: the delegate has a node."""


@dataclass(frozen=True)
class Claim:
    """Claim the pod for a target, or renew that claim, then create the chaperon there.

    Every chaperon is sent after a write guarded by the pod's resourceVersion, even if the claim is unchanged. Two
    replicas that both believe they lead therefore cannot send it to two targets.
    """

    node_name: str


class GiveUp(msgspec.Struct, frozen=True):
    """Record why the claim's target could not take the pod, and delete the chaperon in it."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """Wait for a change, or `seconds`; `message` is the reason shown on the pod."""

    message: str = ""
    seconds: float | None = None


class Stop(msgspec.Struct, frozen=True):
    """Give the pod no target until its namespace is enabled; `message` reports that."""

    message: str


Step = Bind | Claim | GiveUp | Wait | Stop


def fast_path(chaperon: Mapping[str, Any]) -> Bind | Wait | None:
    """Return the step that follows from the chaperon in a ready target alone, which is enough for most pods.

    None if the delegate was refused or is gated, when other targets have to be considered.
    """
    if chaperon["metadata"].get("deletionTimestamp"):
        return Wait()
    outcome, _ = delegate_outcome(chaperon.get("status") or {})
    if outcome == "bind":
        return Bind()
    return Wait() if outcome == "wait" else None


def decide(view: RankedPod) -> Step:
    """Return the next step. In a namespace that is not enabled, a pod keeps its chaperon but gets no new one."""
    step = _next(view)
    if not view.closed:
        return step
    if view.chaperon is not None:
        return Wait(step.reason) if isinstance(step, GiveUp) else step
    return step if isinstance(step, Wait) and step.message else Stop(view.closed)


def _next(view: RankedPod) -> Step:
    """Return the step of the first rule that applies; the last rule always does."""
    return next(step for rule in _RULES if (step := rule(view)) is not None)


def _without_claim(view: RankedPod) -> Step | None:
    """Choose a target for a pod without a valid claim."""
    stands = claim_stands(view.claim, held=view.claim_held, connected=view.claim_known)
    return None if stands else _claim(view)


def _not_connected(view: RankedPod) -> Step | None:
    """Wait for a claimed target: while it is not connected, a delegate may run in it."""
    return None if view.claim_known else Wait("the pod is claimed by this target, which is not connected")


def _without_chaperon(view: RankedPod) -> Step | None:
    """Handle a claim without a chaperon: not created yet, or deleted. Only a target that answers can show which."""
    if view.chaperon is not None:
        return None
    if not view.claim_ready:
        return _claim(view) if view.claim_unsent else _not_ready(view)
    feasible = {target.node_name for target in (*view.ranking.order, *view.ranking.pending)}
    if (view.claim in feasible and view.claim not in view.failed) or _choice(view) == view.claim:
        return Claim(view.claim)
    return _claim(view)


def _not_ready(view: RankedPod) -> Step | None:
    """Wait for a target that does not answer: what it has last reported may be out of date."""
    return None if view.claim_ready else Wait(f"the pod is claimed by this target: {view.claim_state}")


def _neglected(view: RankedPod) -> Step | None:
    """Move a pod without any reaction in the claim's target to another that can take it, if there is one."""
    if not view.neglected or taken_up_by(_chaperon(view)):
        return None
    again, seconds = _repeatable(view, None)
    return GiveUp(view.neglected) if _has_untried(view) or again else Wait(view.neglected, seconds)


def _misplaced(view: RankedPod) -> Step | None:
    """Move a pod that may no longer run in the claim's target, unless its delegate has a node or is being deleted."""
    chaperon = _chaperon(view)
    if not view.misplaced or chaperon["metadata"].get("deletionTimestamp") or isinstance(fast_path(chaperon), Bind):
        return None
    return GiveUp(view.misplaced)


def _settled(view: RankedPod) -> Step | None:
    """Do what the chaperon alone asks for: bind the pod, or wait for the target's scheduler."""
    return fast_path(_chaperon(view))


def _spared(view: RankedPod) -> Step | None:
    """Keep a refused pod whose Placement may decide for the claim's target again."""
    return Wait(_outcome(view)[1]) if view.spared else None


def _gated(view: RankedPod) -> Step | None:
    """Move a pod whose delegate is gated by a queue to an untried target, after a while.

    If all targets have been tried, the pod keeps its place in the last queue.
    """
    outcome, reason = _outcome(view)
    if outcome != "gated":
        return None
    return GiveUp(reason) if view.neglected and _has_untried(view) else Wait(reason)


def _refused(view: RankedPod) -> Step:
    """Move a refused pod to the next target, or back to the best one, to wait for an autoscaler."""
    _, reason = _outcome(view)
    if _has_untried(view):
        return GiveUp(reason)
    here = view.failed.get(view.claim)
    again, seconds = _repeatable(view, here.may_repeat_at(view.dwell) if here else None)
    if again:
        return GiveUp(reason)
    # Without capacity in any target, all are equally good.
    stays = not view.ranking.order and any(target.node_name == view.claim for target in view.ranking.pending)
    if stays or view.claim in view.failed or view.claim == _best(view):
        return Wait(reason, seconds)
    return GiveUp(reason)


_RULES: tuple[Callable[[RankedPod], Step | None], ...] = (
    _without_claim,
    _not_connected,
    _without_chaperon,
    _not_ready,
    _neglected,
    _misplaced,
    _settled,
    _spared,
    _gated,
    _refused,
)
"""Rules for one step, the first that applies wins. Rules after `_without_chaperon` have a chaperon."""


def _chaperon(view: RankedPod) -> Mapping[str, Any]:
    assert view.chaperon is not None
    return view.chaperon


def _outcome(view: RankedPod) -> tuple[Outcome, str]:
    return delegate_outcome(_chaperon(view).get("status") or {})


def _has_untried(view: RankedPod) -> bool:
    """Return True if another target than the claim's can take the pod and has not been tried."""
    return any(target.node_name != view.claim for target in view.ranking.order[: view.ranking.untried])


def _claim(view: RankedPod) -> Step:
    choice = _choice(view)
    return Claim(choice) if choice else Wait("", _left(view, _retries(view)))


def _choice(view: RankedPod) -> str:
    """Return the virtual node to try: untried first, then tried but with capacity now, then the best to wait in; or
    empty.
    """
    if view.ranking.untried:
        return view.ranking.order[0].node_name
    again, _ = _repeatable(view, None)
    return again or _best(view)


def _best(view: RankedPod) -> str:
    """Return the virtual node to wait in if no target can take the pod now: one candidate triggers one autoscaler."""
    order = [target for target in view.ranking.order if not _is_too_early(view, target)]
    if order:
        return max(order, key=view.ranking.merit).node_name
    pending = () if view.ranking.order else view.ranking.pending
    return next((target.node_name for target in pending if not _is_too_early(view, target)), "")


def _is_too_early(view: RankedPod, target: TargetInfo) -> bool:
    """Return True if a target refused the pod's chaperon so recently that it may not be retried yet."""
    attempt = view.failed.get(target.node_name)
    due = attempt.may_retry_at() if attempt is not None else None
    # A later time was written by a clock that has been set back since.
    return due is not None and view.now < due <= view.now + LONGEST_RETRY


def _retries(view: RankedPod) -> list[datetime]:
    """Return the times at which targets that refused the pod's chaperon may be retried."""
    targets = view.ranking.order or view.ranking.pending
    failed = (view.failed.get(target.node_name) for target in targets)
    return [due for attempt in failed if attempt is not None and (due := attempt.may_retry_at()) is not None]


def _left(view: RankedPod, moments: list[datetime]) -> float | None:
    return (min(moments) - view.now).total_seconds() if moments else None


def _repeatable(view: RankedPod, not_before: datetime | None) -> tuple[str, float | None]:
    """Return the best target to repeat, and None; or empty, and the seconds until there may be one.

    A target may be repeated if it refused the pod a while ago and reports capacity now (ruling 9). So may one that
    refused the chaperon itself, whose capacity is unknown. A pod that waits in a target stays until `not_before`.
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
    """Return True if the delegate has scheduling gates in the target."""
    return delegate_outcome(chaperon.get("status") or {})[0] == "gated"


GATED = "its delegate has scheduling gates in the target"


def delegate_outcome(status: Mapping[str, Any]) -> tuple[Outcome, str]:
    """Interpret a chaperon's status for its proxy pod. Return the outcome and the reason of a refusal or of gates."""
    scheduling, reason = scheduling_of(status)
    if scheduling == "bound":
        return "bind", ""
    if scheduling == "gated":
        return "gated", f"{GATED} ({reason}): see the controller there that opens its gates, such as a queue"
    return ("refused", reason) if scheduling in ("refused", "unschedulable") else ("wait", "")
