"""What to say about a target, and how to let go of one that is being removed. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from agent.api import names
from agent.api.conditions import Status, condition_of, find_condition, set_condition
from agent.clusters.health.agent_health import NOT_ASKED, AgentRecord, AgentState
from agent.clusters.health.refusal_backoff import LONGEST_PAUSE_SECONDS, Refusal
from agent.clusters.target import Record, State
from agent.model import podstate

SETTLE_SECONDS = 5.0
"""A target that is connecting keeps its old conditions for so long: restarts and short losses are not told."""

Conditions = list[dict[str, Any]]

AGENT_READY = "AgentReady"
"""Whether the target's own agent is alive and of a version that fits."""

RESPONSIVE = "Responsive"
"""Whether the target answers promptly; told once it did not."""

ACCEPTS_PODS = "AcceptsPods"
"""Whether the target takes PodChaperons; told once it refused those of several pods in a row."""

QUOTAS_READABLE = "QuotasReadable"
"""Whether each ResourceQuota of the target counts; told once one could not be read."""
OBJECTS_READABLE = "ObjectsReadable"
"""Whether every object that is watched in the target can be read; told once one could not."""
SECURE = "Secure"
"""Whether requests are encrypted and the certificate of the API server is verified; reported once they were not."""

_MENDED = {
    RESPONSIVE: ("Prompt", "answers promptly"),
    ACCEPTS_PODS: ("Accepts", "takes pods"),
    QUOTAS_READABLE: ("Readable", "every ResourceQuota there counts"),
    OBJECTS_READABLE: ("Readable", "all objects that are watched can be read"),
    SECURE: ("Verified", "requests are encrypted, and the certificate of the API server is verified"),
}

_AGENT_STATUS: dict[AgentState, Status] = {
    AgentState.READY: "True",
    AgentState.SILENT: "False",
    AgentState.TOO_OLD: "False",
    AgentState.INVALID_SUMMARY: "False",
    AgentState.UNKNOWN: "Unknown",
}


class Health(msgspec.Struct, frozen=True):
    """Values of a target's conditions."""

    reachable: Status
    authorized: Status
    ready: Status
    reason: str
    message: str
    agent: AgentRecord | None = NOT_ASKED
    """None: not known yet, what was said last stays."""
    slow: bool = False
    refusal: Refusal | None = None
    """What it says to those who send it pods, None when it takes them."""
    ignored: str = ""
    """What the target tells that is left out because it cannot be used."""
    unreadable: str = ""
    """Objects that cannot be read and why, empty if all can."""
    insecure: str = ""
    """Field of the kubeconfig that lets others read or forge answers, and the remedy; empty if none does."""


_ASPECTS: dict[State, tuple[Status, Status, Status]] = {
    State.CONNECTING: ("Unknown", "Unknown", "False"),
    State.READY: ("True", "True", "True"),
    State.UNREACHABLE: ("False", "Unknown", "False"),
    State.UNAUTHORIZED: ("True", "False", "False"),
    State.FORBIDDEN: ("True", "False", "False"),
    State.NOT_INSTALLED: ("True", "True", "False"),
    State.WRONG_CLUSTER: ("True", "True", "False"),
    State.FAILING: ("True", "Unknown", "False"),
}


def health(
    record: Record,
    agent: AgentRecord | None,
    *,
    slow: bool = False,
    refusal: Refusal | None = None,
    ignored: str = "",
    unreadable: str = "",
    insecure: str = "",
) -> Health:
    """The conditions that a connected target's record, that of its agent, its circuit and its objects mean."""
    asked = agent if record.state is State.READY else NOT_ASKED
    state = record.state.value
    return Health(*_ASPECTS[record.state], state, record.message, asked, slow, refusal, ignored, unreadable, insecure)


def unconnected(reason: str, message: str) -> Health:
    """The conditions of a target that cannot even be tried."""
    return Health("Unknown", "Unknown", "False", reason, message)


def conditions(old: Conditions | None, now_is: Health, generation: int | None, now: datetime) -> Conditions:
    """All conditions of a target; those of others stay. A target whose agent does not work is not Ready."""
    agent = now_is.agent or _last_told(old)
    ready = (now_is.ready, now_is.reason, now_is.message)
    if now_is.ready == "True" and agent is not None and not agent.usable:
        ready = ("False", agent.state.value, agent.message)
    values = [
        ("Reachable", now_is.reachable, now_is.reason, now_is.message),
        ("Authorized", now_is.authorized, now_is.reason, now_is.message),
    ]
    if agent is not None:
        values.append((AGENT_READY, _AGENT_STATUS[agent.state], agent.state.value, agent.message))
    values += _told_once(old, now_is)
    result = list(old or ())
    for kind, status, reason, message in (*values, ("Ready", *ready)):
        result = set_condition(result, kind, status, reason, message, now, generation)
    return result


def _told_once(old: Conditions | None, now_is: Health) -> Iterator[tuple[str, Status, str, str]]:
    """Yield conditions with a fault as False, and earlier ones without a fault as True."""
    refusal = now_is.refusal
    unreadable = f"correct or delete in the target what cannot be read: {now_is.unreadable}"
    faults = {
        RESPONSIVE: ("Slow", "answers take long: pods that can go to other targets do") if now_is.slow else None,
        ACCEPTS_PODS: (refusal.reason, _refuses(refusal)) if refusal is not None else None,
        QUOTAS_READABLE: ("InvalidQuota", now_is.ignored) if now_is.ignored else None,
        OBJECTS_READABLE: ("Unreadable", unreadable) if now_is.unreadable else None,
        SECURE: ("InsecureKubeconfig", now_is.insecure) if now_is.insecure else None,
    }
    for kind, fault in faults.items():
        if fault is not None:
            yield kind, "False", *fault
        elif find_condition(old, kind) is not None:
            yield kind, "True", *_MENDED[kind]


def _refuses(refusal: Refusal) -> str:
    return (
        f"refuses pods of namespace {refusal.namespace}, which go elsewhere where they can; one tries again every"
        f" {LONGEST_PAUSE_SECONDS:g} s at most: {refusal.words}"
    )


def refusal_told(target: dict[str, Any], namespace: str) -> str:
    """What a Target tells of its cluster's refusing pods of a namespace, empty when it tells of none."""
    told = condition_of(target, ACCEPTS_PODS) or {}
    message = str(told.get("message") or "")
    about = f"refuses pods of namespace {namespace},"
    return message if told.get("status") == "False" and message.startswith(about) else ""


def _last_told(old: Conditions | None) -> AgentRecord | None:
    told = find_condition(old, AGENT_READY)
    if told is None or told.get("reason") not in list(AgentState):
        return None
    return AgentRecord(AgentState(told["reason"]), told.get("message", ""))


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


Chaperon = Literal["none", "doubtful", "candidate", "placed"]
"""A candidate has no leave to start and no claim: it is only taken away, which the scheduler does. Doubtful: one is on
its way there, or may have arrived without being seen.
"""


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
    chaperon: Chaperon
    """What it has in the target."""
    deleting: bool


class Leaving(msgspec.Struct, frozen=True):
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
    """Chaperons of ours are left there, or what was brought for them."""
    unsure: bool = False
    """Chaperons are on their way there, or were there that no pod of its finalizer has, and it cannot be asked."""
    elsewhere: bool = False
    """Its kubeconfig leads to another cluster than the one where its pods were sent."""
    why: str = ""
    """Why it is not ready, in words."""


class DeletePod(msgspec.Struct, frozen=True):
    """Delete a proxy pod: its controller makes another one elsewhere."""

    pod: Pod


class FreePod(msgspec.Struct, frozen=True):
    """Take the target's finalizer from a pod that never went there."""

    pod: Pod
    finalizers: tuple[str, ...]


class Drain(msgspec.Struct, frozen=True):
    """What to do with the pods; `drained` when the Target may go. Else the condition Drained says why not."""

    actions: tuple[DeletePod | FreePod, ...]
    drained: bool
    reason: str = ""
    message: str = ""


_AWAY = "the target cannot be reached, so that delegates may still run there"
_ELSEWHERE = "the kubeconfig leads to another cluster, so that delegates may still run in the one before"


def drain(view: Leaving) -> Drain:
    """One step towards removing a target (ruling 8)."""
    actions = tuple(action for pod in view.pods for action in _empty(view, pod))
    if view.forced:
        return Drain(actions, drained=True)
    if view.ready:
        if not view.pods and not view.chaperons and not view.unsure:
            return Drain(actions, drained=True)
        return Drain(actions, False, "Draining", "waiting until the delegates of this target have stopped")
    # Finalizers go only when the delegate is known to be gone, or else when they are released: before that, no
    # finalizer means no delegate.
    if not view.pods and not view.unsure and view.age < view.release_after:
        return Drain(actions, drained=True)
    why = f" ({view.why})" if view.why else ""
    return Drain(
        actions,
        False,
        "Unreachable",
        f"{_ELSEWHERE if view.elsewhere else _AWAY}; it is removed when it is back and empty, or now if you annotate it"
        f' with {names.SHORT_PREFIX}{names.FORCE_REMOVE}="true"{why}',
    )


def _empty(view: Leaving, pod: Pod) -> Iterable[DeletePod | FreePod]:
    if pod.deleting:
        return
    if pod.here or pod.chaperon == "placed" or (pod.claimed and not view.ready):
        yield DeletePod(pod)
    elif pod.chaperon == "none" or view.forced:
        yield FreePod(pod, tuple(podstate.without(pod.finalizers, {view.finalizer})))
