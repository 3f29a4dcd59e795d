"""The next step for one proxy pod in mode `ranked`: pure (design.md, Scheduling and ruling 1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
    """Whether this process made the claim and knows that no chaperon has left for its target."""
    claim_state: str
    """Why it is not ready, in words."""
    chaperon: Mapping[str, Any] | None
    """In the claim's target."""
    attempts: Mapping[str, str]
    ranking: Ranking


@dataclass(frozen=True)
class Bind:
    """The delegate has a node: bind the proxy pod to the claim's virtual node."""


@dataclass(frozen=True)
class Create:
    """Send the chaperon to the claim's target."""


@dataclass(frozen=True)
class Claim:
    """Promise the pod to one target, then create the chaperon there."""

    node_name: str


@dataclass(frozen=True)
class GiveUp:
    """Remember why the claim's target could not take the pod and delete the chaperon there."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """Nothing to do until something changes; `message`, where there is one, says why the pod waits."""

    message: str = ""


Step = Bind | Create | Claim | GiveUp | Wait


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
    """The next step."""
    if not view.claim or (not view.claim_held and not view.claim_known):
        return _first(view)
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
    if any(place.node_name != view.claim for place in view.ranking.order[: view.ranking.untried]):
        return GiveUp(reason)
    return Wait(reason)


def _first(view: View) -> Step:
    places = view.ranking.order or view.ranking.pending
    return Claim(places[0].node_name) if places else Wait()


def _without_chaperon(view: View) -> Step:
    """The claim's target has no chaperon: not yet, or not any more. Only a target that answers can tell."""
    if not view.claim_ready:
        return _first(view) if view.claim_unsent else Wait(f"the pod is claimed by this target: {view.claim_state}")
    places = view.ranking.order or view.ranking.pending
    feasible = {place.node_name for place in places}
    if view.claim in feasible and (view.claim not in view.attempts or places[0].node_name == view.claim):
        return Create()
    return _first(view)


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
