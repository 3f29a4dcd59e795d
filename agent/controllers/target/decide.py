"""What to say about a target, and how to let go of one that is being removed. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.api import names
from agent.api.conditions import Status, find_condition, set_condition
from agent.clusters.target import Record, State

SETTLE_SECONDS = 5.0
"""A target that is connecting keeps its old conditions for so long: restarts and short losses are not told."""

Conditions = list[dict[str, Any]]


@dataclass(frozen=True)
class Health:
    """Values of a target's conditions."""

    reachable: Status
    authorized: Status
    ready: Status
    reason: str
    message: str


_ASPECTS: dict[State, tuple[Status, Status, Status]] = {
    State.CONNECTING: ("Unknown", "Unknown", "False"),
    State.READY: ("True", "True", "True"),
    State.UNREACHABLE: ("False", "Unknown", "False"),
    State.UNAUTHORIZED: ("True", "False", "False"),
    State.FORBIDDEN: ("True", "False", "False"),
    State.NOT_INSTALLED: ("True", "True", "False"),
    State.FAILING: ("True", "Unknown", "False"),
}


def health(record: Record) -> Health:
    """The conditions that a connected target's record means."""
    return Health(*_ASPECTS[record.state], record.state.value, record.message)


def unconnected(reason: str, message: str) -> Health:
    """The conditions of a target that cannot even be tried."""
    return Health("Unknown", "Unknown", "False", reason, message)


def conditions(old: Conditions | None, now_is: Health, generation: int | None, now: datetime) -> Conditions:
    """All conditions of a target; those of others stay."""
    result = list(old or ())
    for kind, status in (
        ("Reachable", now_is.reachable),
        ("Authorized", now_is.authorized),
        ("Ready", now_is.ready),
    ):
        result = set_condition(result, kind, status, now_is.reason, now_is.message, now, generation)
    return result


def settles_in(record: Record, now: datetime) -> float:
    """In how many seconds a target that is connecting has taken too long, 0 for any other state."""
    if record.state is not State.CONNECTING:
        return 0.0
    return max(0.0, SETTLE_SECONDS - (now - record.since).total_seconds())


def became_worse(old: Conditions | None, new: Conditions) -> bool:
    """Whether Ready turned false, or is false for another reason than before: worth an event."""
    before, after = find_condition(old, "Ready") or {}, find_condition(new, "Ready") or {}
    return after.get("status") == "False" and before.get("reason") != after.get("reason")


def only_words_differ(old: Conditions | None, new: Conditions) -> bool:
    """Whether old and new conditions say the same in other words."""
    fields = ("type", "status", "reason", "observedGeneration")
    return [[condition.get(field) for field in fields] for condition in old or ()] == [
        [condition.get(field) for field in fields] for condition in new
    ]


@dataclass(frozen=True)
class Pod:
    """A proxy pod that has to do with a target being removed."""

    key: tuple[str, str]
    uid: str
    version: str
    finalizers: tuple[str, ...]
    here: bool
    """It is bound to the target's virtual node."""
    claimed: bool
    """It may have been sent there, without our knowing the outcome."""
    placed: bool
    """It has a chaperon in the target."""
    deleting: bool


@dataclass(frozen=True)
class Leaving:
    """A target that is being removed."""

    finalizer: str
    forced: bool
    ready: bool
    """Its stores may be believed."""
    age: float
    """Seconds since its deletion began."""
    release_after: float
    pods: tuple[Pod, ...]
    chaperons: bool
    """Chaperons of ours are left there."""


@dataclass(frozen=True)
class DeletePod:
    """Delete a proxy pod: its controller makes another one elsewhere."""

    pod: Pod


@dataclass(frozen=True)
class FreePod:
    """Take the target's finalizer from a pod that never went there."""

    pod: Pod
    finalizers: tuple[str, ...]


@dataclass(frozen=True)
class Drain:
    """What to do with the pods; `drained` when the Target may go. Else the condition Drained says why not."""

    actions: tuple[DeletePod | FreePod, ...]
    drained: bool
    reason: str = ""
    message: str = ""


def drain(view: Leaving) -> Drain:
    """One step towards removing a target (design.md, ruling 8)."""
    actions = tuple(action for pod in view.pods for action in _empty(view, pod))
    if view.forced:
        return Drain(actions, drained=True)
    if view.ready:
        if not view.pods and not view.chaperons:
            return Drain(actions, drained=True)
        return Drain(actions, False, "Draining", "waiting until the delegates of this target have stopped")
    # Finalizers go only when the delegate is known to be gone, or else when they are released: before that, no
    # finalizer means no delegate.
    if not view.pods and view.age < view.release_after:
        return Drain(actions, drained=True)
    return Drain(
        actions,
        False,
        "Unreachable",
        "the target cannot be reached, so that delegates may still run there; it is removed when it is back and"
        f' empty, or now if you annotate it with {names.SHORT_PREFIX}{names.FORCE_REMOVE}="true"',
    )


def _empty(view: Leaving, pod: Pod) -> Iterable[DeletePod | FreePod]:
    if pod.deleting:
        return
    if pod.here or pod.placed or (pod.claimed and not view.ready):
        yield DeletePod(pod)
    else:
        yield FreePod(pod, tuple(finalizer for finalizer in pod.finalizers if finalizer != view.finalizer))
