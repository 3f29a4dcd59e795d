"""Conditions of a Target, and the steps that drain one that is being deleted. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from agent.api import names
from agent.api.conditions import Status, condition_of, find_condition, set_condition
from agent.clusters.health.agent_health import NOT_ASKED, AgentRecord, AgentState
from agent.clusters.health.record import Record, State
from agent.clusters.health.refusal_backoff import LONGEST_PAUSE_SECONDS, Refusal
from agent.model import podstate

SETTLE_SECONDS = 5.0
"""Seconds for which a connecting target keeps its old conditions: restarts and short outages change none."""

Conditions = list[dict[str, Any]]

AGENT_READY = "AgentReady"
"""Condition: whether the target's agent is alive and its version is compatible."""

RESPONSIVE = "Responsive"
"""Condition: whether the target answers promptly. Absent until it once did not."""

ACCEPTS_PODS = "AcceptsPods"
"""Condition: whether the target accepts PodChaperons. Absent until it refused those of several pods in a row."""

QUOTAS_READABLE = "QuotasReadable"
"""Condition: whether every ResourceQuota of the target is readable. Absent until one was not."""
OBJECTS_READABLE = "ObjectsReadable"
"""Condition: whether every watched object of the target is readable. Absent until one was not."""
SECURE = "Secure"
"""Condition: whether requests are encrypted and the API server's certificate is verified. Absent until they were
not."""

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
    """State of the target's agent; None if not known yet, which keeps the last condition."""
    slow: bool = False
    refusal: Refusal | None = None
    """The target's refusal of PodChaperons; None if it accepts them."""
    ignored: str = ""
    """Published data of the target that is ignored because it is invalid; empty if none."""
    unreadable: str = ""
    """Unreadable objects with the reasons; empty if all are readable."""
    insecure: str = ""
    """Field of the kubeconfig that disables encryption or verification, and the remedy; empty if none does."""


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
    """Return the condition values for a target with a connection."""
    asked = agent if record.state is State.READY else NOT_ASKED
    state = record.state.value
    return Health(*_ASPECTS[record.state], state, record.message, asked, slow, refusal, ignored, unreadable, insecure)


def unconnected(reason: str, message: str) -> Health:
    """Return the condition values for a target whose Target or Secret is unusable."""
    return Health("Unknown", "Unknown", "False", reason, message)


def conditions(old: Conditions | None, now_is: Health, generation: int | None, now: datetime) -> Conditions:
    """Return all conditions of a Target; those of other controllers are kept. Ready requires a working agent."""
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
    """Return the message of AcceptsPods if it is about pods of this namespace; empty otherwise."""
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
    """Return the seconds left of SETTLE_SECONDS for a connecting target; 0 in any other state."""
    if record.state is not State.CONNECTING:
        return 0.0
    return max(0.0, SETTLE_SECONDS - (now - record.since).total_seconds())


def became_worse(old: Conditions | None, new: Conditions) -> bool:
    """Return True if Ready is False and its reason has changed, which deserves an event."""
    before, after = find_condition(old, "Ready") or {}, find_condition(new, "Ready") or {}
    return after.get("status") == "False" and before.get("reason") != after.get("reason")


def only_words_differ(old: Conditions | None, new: Conditions) -> bool:
    """Return True if old and new conditions differ in messages alone."""
    fields = ("type", "status", "reason", "observedGeneration")
    return [[condition.get(field) for field in fields] for condition in old or ()] == [
        [condition.get(field) for field in fields] for condition in new
    ]


Chaperon = Literal["none", "doubtful", "candidate", "placed"]
"""Chaperon of a pod in a target. A candidate has neither a claim nor permission to start; the scheduler deletes it.
Doubtful: a POST is in flight, or may have succeeded without an answer.
"""


@dataclass(frozen=True)
class Pod:
    """A proxy pod that is bound to, or held by, a target that is being drained."""

    key: tuple[str, str]
    uid: str
    version: str
    finalizers: tuple[str, ...]
    here: bool
    """Whether it is bound to the target's virtual node."""
    claimed: bool
    """Whether it is claimed for the target, so that its chaperon may have been created there."""
    chaperon: Chaperon
    """Its chaperon in the target."""
    deleting: bool


class Leaving(msgspec.Struct, frozen=True):
    """A target that is being drained."""

    finalizer: str
    forced: bool
    ready: bool
    """Whether it is connected and its stores are up to date."""
    age: float
    """Seconds since its deletion began."""
    release_after: float
    pods: tuple[Pod, ...]
    chaperons: bool
    """Whether the target still has chaperons of this source, or objects that were copied for them."""
    unsure: bool = False
    """Whether chaperons may exist that belong to no pod in `pods`: in flight, or found without their pod."""
    elsewhere: bool = False
    """Whether its kubeconfig points to another cluster than the one that received its pods."""
    why: str = ""
    """Why it is not ready; empty if it is."""


class DeletePod(msgspec.Struct, frozen=True):
    """Delete a proxy pod: its controller creates another one for another target."""

    pod: Pod


class FreePod(msgspec.Struct, frozen=True):
    """Remove the target's finalizer from a pod without a delegate in the target."""

    pod: Pod
    finalizers: tuple[str, ...]


class Drain(msgspec.Struct, frozen=True):
    """Next step: actions on pods; then the Target's finalizer is removed if `drained`, or else Drained is set."""

    actions: tuple[DeletePod | FreePod, ...]
    drained: bool
    reason: str = ""
    message: str = ""


_AWAY = "the target cannot be reached, so that delegates may still run there"
_ELSEWHERE = "the kubeconfig leads to another cluster, so that delegates may still run in the one before"


def drain(view: Leaving) -> Drain:
    """Return the next step of draining a target (ruling 8)."""
    actions = tuple(action for pod in view.pods for action in _empty(view, pod))
    if view.forced:
        return Drain(actions, drained=True)
    if view.ready:
        if not view.pods and not view.chaperons and not view.unsure:
            return Drain(actions, drained=True)
        return Drain(actions, False, "Draining", "waiting until the delegates of this target have stopped")
    # A pod keeps its finalizer until its delegate is known to be deleted, or until `release_after`. Before that, no
    # pod with a finalizer means no delegate.
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
