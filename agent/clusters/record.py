"""What is known of a target: its state, and which state an error of its API server means. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agent.kube.errors import Forbidden, InvalidConfig, KubeError, NotFound, StatusError, Unauthorized, Unreachable


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
