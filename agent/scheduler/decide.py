"""The next step for one proxy pod in mode `ranked`: pure (design.md, Scheduling and ruling 1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from agent.scheduler.attempts import Attempt
from agent.scheduling.ranking import Ranking

Outcome = Literal["bind", "refused", "wait"]


@dataclass(frozen=True)
class View:
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
    attempts: Mapping[str, Attempt]
    ranking: Ranking
    now: datetime
    dwell: timedelta
    """Shortest stay in a target that refused the pod before it moves to one that did so earlier."""
    closed: str = ""
    """Why no pod of its namespace gets a target anew, empty when pods may."""


@dataclass(frozen=True)
class Bind:
    """The delegate has a node: bind the proxy pod to the claim's virtual node."""


@dataclass(frozen=True)
class Claim:
    """Promise the pod to one target, or renew that promise, then create the chaperon there.

    A chaperon leaves only after a write that the pod's version has guarded, whatever was claimed before: two replicas
    that both think that they lead, and know different things of the targets, then cannot send it to two of them.
    """

    node_name: str


@dataclass(frozen=True)
class GiveUp:
    """Remember why the claim's target could not take the pod and delete the chaperon there."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """Nothing to do until something changes, or some seconds have passed; `message` says why the pod waits."""

    message: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class Stop:
    """The pod gets no target before its namespace is enabled; `message` says so."""

    message: str


Step = Bind | Claim | GiveUp | Wait | Stop


def glance(chaperon: Mapping[str, Any]) -> Bind | Wait | None:
    """What follows from the chaperon in a target that is ready, before anything else is looked at: for most pods all
    there is to know. None when it has been refused and the other targets count.
    """
    if chaperon["metadata"].get("deletionTimestamp"):
        return Wait()
    outcome, _ = judge(chaperon.get("status") or {})
    if outcome == "bind":
        return Bind()
    return Wait() if outcome == "wait" else None


def decide(view: View) -> Step:
    """The next step. Where its namespace is not enabled, a pod keeps the chaperon that it has and gets no other."""
    step = _next(view)
    if not view.closed:
        return step
    if view.chaperon is not None:
        return Wait(step.reason) if isinstance(step, GiveUp) else step
    return step if isinstance(step, Wait) and step.message else Stop(view.closed)


def _next(view: View) -> Step:
    if not view.claim or (not view.claim_held and not view.claim_known):
        return _claim(view)
    if not view.claim_known:
        return Wait("the pod is claimed by this target, which is not connected")
    if view.chaperon is None:
        return _without_chaperon(view)
    if not view.claim_ready:
        return Wait(f"the pod is claimed by this target: {view.claim_state}")
    settled = glance(view.chaperon)
    if settled is not None:
        return settled
    _, reason = judge(view.chaperon.get("status") or {})
    return _refused(view, reason)


def _claim(view: View) -> Step:
    choice = _choice(view)
    return Claim(choice) if choice else Wait()


def _without_chaperon(view: View) -> Step:
    """The claim's target has no chaperon: not yet, or not any more. Only a target that answers can tell."""
    if not view.claim_ready:
        return _claim(view) if view.claim_unsent else Wait(f"the pod is claimed by this target: {view.claim_state}")
    feasible = {place.node_name for place in (*view.ranking.order, *view.ranking.pending)}
    if (view.claim in feasible and view.claim not in view.attempts) or _choice(view) == view.claim:
        return Claim(view.claim)
    return _claim(view)


def _refused(view: View, reason: str) -> Step:
    """The claim's target cannot take the pod: on to the next, or back to the best, where it stays for an autoscaler."""
    if any(place.node_name != view.claim for place in view.ranking.order[: view.ranking.untried]):
        return GiveUp(reason)
    here = view.attempts.get(view.claim)
    again, seconds = _repeatable(view, here.may_repeat_at(view.dwell) if here else None)
    if again:
        return GiveUp(reason)
    # Where no target has room, one is as good as another.
    stays = not view.ranking.order and any(place.node_name == view.claim for place in view.ranking.pending)
    if stays or view.claim in view.attempts or view.claim == _best(view.ranking):
        return Wait(reason, seconds)
    return GiveUp(reason)


def _choice(view: View) -> str:
    """Virtual node to go to: untried first, then tried but with room by now, then where it waits best; or none."""
    if view.ranking.untried:
        return view.ranking.order[0].node_name
    again, _ = _repeatable(view, None)
    return again or _best(view.ranking)


def _best(ranking: Ranking) -> str:
    """Where a pod waits that no target can take now: one candidate, so that one autoscaler reacts."""
    if not ranking.order:
        return ranking.pending[0].node_name if ranking.pending else ""
    return max(ranking.order, key=ranking.total).node_name


def _repeatable(view: View, not_before: datetime | None) -> tuple[str, float | None]:
    """The best other target that refused the pod a while ago and tells that it has room now (ruling 9).

    Where there is none yet: in how many seconds there may be. A pod that waits somewhere stays until `not_before`.
    """
    soonest: datetime | None = None
    for place in view.ranking.order[view.ranking.untried :]:
        if place.node_name == view.claim or all(shape.free is None for shape in place.shapes):
            continue
        due = view.attempts[place.node_name].may_repeat_at(view.dwell)
        due = max(filter(None, (due, not_before)), default=view.now)
        if due <= view.now:
            return place.node_name, None
        soonest = min(due, soonest or due)
    return "", (soonest - view.now).total_seconds() if soonest else None


def judge(status: Mapping[str, Any]) -> tuple[Outcome, str]:
    """What a chaperon's status means for its proxy pod, and the reason of a refusal.

    Unschedulable with a nominated node is preemption under way, not a refusal (ruling 9).
    """
    if status.get("phase") in ("Running", "Succeeded", "Failed"):
        return "bind", ""
    for condition in status.get("conditions") or ():
        if condition.get("type") != "PodScheduled":
            continue
        if condition.get("status") == "True":
            return "bind", ""
        if condition.get("reason") == "Refused" or (
            condition.get("reason") == "Unschedulable" and not status.get("nominatedNodeName")
        ):
            return "refused", str(condition.get("message") or condition["reason"])
    return "wait", ""
