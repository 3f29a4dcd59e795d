"""What is known of a target: its state, and which state an error of its API server means. Pure."""

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
    """What we know of a target. The values are reasons of its conditions."""

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
    """A target's health as others may read it."""

    state: State
    message: str
    since: datetime
    """When this state began."""
    failures: int = 0
    """Probes that failed in a row."""
    silent: bool = False
    """Whether nothing of the target answers; if so, what else it may be doing is not known."""
    unanswered_since: datetime | None = None
    """Since when the target is unreachable or silent, whichever of both; None while it answers."""


def grace(record: Record, now: datetime, seconds: float) -> float:
    """How much of these seconds a target yet counts as just back: Placements are to decide for its cluster again first.

    0 where it has been there for longer, and where the clock was set meanwhile.
    """
    left = (record.since + timedelta(seconds=seconds) - now).total_seconds()
    return left if record.state is State.READY and 0 < left <= seconds else 0.0


def silent_in(record: Record, now: datetime, seconds: float) -> float | None:
    """Return the seconds until a target has given no answer for `seconds`; 0.0 if it has not, None if it answers."""
    if record.unanswered_since is None:
        return None
    return max(0.0, seconds - (now - record.unanswered_since).total_seconds())


def refuses(record: Record) -> bool:
    """Return True if the API server of a target answers and refuses the agent, so that its pods may be well."""
    refusing = record.state in (State.UNAUTHORIZED, State.FORBIDDEN, State.FAILING)
    return refusing and record.unanswered_since is None


def classify(error: KubeError, namespace: str) -> tuple[State, str]:
    """The state that an error of the probe means, with a message that a user can act on."""
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
    """Whether an error of the probe means that the cluster behind it gives no answer: only its load balancer may."""
    return isinstance(error, Unreachable | ServerError) and not isinstance(error, Unreadable)


class Unread(KubeError):
    """What the target would tell cannot be read."""


def unread(needed: Informer, others: Iterable[Informer], now: float, patience: float) -> Unread | None:
    """What has not been read for `patience` seconds; None while all is.

    :param needed: without it nothing may be concluded, so why it fails does not matter
    :param others: of these an answer that says no is a matter of the feature that they serve
    :param now: seconds of the monotonic clock
    """
    for informer in (needed, *others):
        error, since = informer.error, informer.hearing.failing_since
        if error is None or since is None or now - since < patience:
            continue
        if informer is needed or not isinstance(error, StatusError):
            return Unread(f"{informer.kind.plural} there cannot be watched: {error}")
    return None
