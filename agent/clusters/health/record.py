"""Health record of a target, and classification of its API server's errors. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from agent.kube.errors import (
    Forbidden,
    InvalidConfig,
    KubeError,
    NotFound,
    ServerError,
    StatusError,
    Unauthorized,
    Unreachable,
    Unreadable,
)
from agent.kube.informer import Informer


class State(StrEnum):
    """State of a target. The values are reasons of its conditions."""

    CONNECTING = "Connecting"
    READY = "Connected"
    UNREACHABLE = "Unreachable"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_INSTALLED = "NotInstalled"
    WRONG_CLUSTER = "WrongCluster"
    FAILING = "Failing"


@dataclass(frozen=True)
class Record:
    """A target's health, as published to other modules."""

    state: State
    message: str
    since: datetime
    """Start of this state."""
    failures: int = 0
    """Consecutive failed probes."""
    silent: bool = False
    """Whether no request to the target is answered; its pods may still run."""
    unanswered_since: datetime | None = None
    """Start of the present outage (unreachable or silent); None while the target answers."""


def grace(record: Record, now: datetime, seconds: float) -> float:
    """Return the seconds for which a target still counts as just returned: Placements must first decide for it again.

    0 if it returned more than `seconds` ago, or if the clock was set meanwhile.
    """
    left = (record.since + timedelta(seconds=seconds) - now).total_seconds()
    return left if record.state is State.READY and 0 < left <= seconds else 0.0


def silent_in(record: Record, now: datetime, seconds: float) -> float | None:
    """Return the seconds until a target has been silent for `seconds`; 0.0 if it has already, None if it answers."""
    if record.unanswered_since is None:
        return None
    return max(0.0, seconds - (now - record.unanswered_since).total_seconds())


def refuses(record: Record) -> bool:
    """Return True if the API server of a target answers and refuses the agent, so that its pods may be well."""
    refusing = record.state in (State.UNAUTHORIZED, State.FORBIDDEN, State.FAILING)
    return refusing and record.unanswered_since is None


def classify(error: KubeError, namespace: str) -> tuple[State, str]:
    """Return the state that an error of the probe means, with a message and remedy for the user."""
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    match error:
        case Unauthorized():
            return State.UNAUTHORIZED, f"the target refuses the credentials ({error}): renew the kubeconfig Secret"
        case Forbidden():
            return State.FORBIDDEN, f"not allowed to list podchaperons {where}: create a Source there ({error})"
        case NotFound():
            return State.NOT_INSTALLED, "the target does not serve PodChaperons: install the agent there"
        case Unreachable() | InvalidConfig():
            return State.UNREACHABLE, str(error)
        case StatusError():
            return State.FAILING, f"the target answers with an error: {error}"
        case _:
            return State.FAILING, str(error)


def is_silence(error: KubeError) -> bool:
    """Return whether an error of the probe means that the cluster does not answer: a 5xx may be from its load
    balancer.
    """
    return isinstance(error, Unreachable | ServerError) and not isinstance(error, Unreadable)


class Unread(KubeError):
    """A watch of the target has failed for too long."""


def unread(needed: Informer, others: Iterable[Informer], now: float, patience: float) -> Unread | None:
    """Return the error of a watch that has failed for `patience` seconds; None if there is none.

    :param needed: informer that every decision needs, so any error of it counts
    :param others: informers of optional features; a refusal (StatusError) of their watch affects only that
        feature
    :param now: seconds of the monotonic clock
    """
    for informer in (needed, *others):
        error, since = informer.error, informer.hearing.failing_since
        if error is None or since is None or now - since < patience:
            continue
        if informer is needed or not isinstance(error, StatusError):
            return Unread(f"{informer.kind.plural} there cannot be watched: {error}")
    return None
