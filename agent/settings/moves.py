"""Settings of moves of pods between targets, and of unreachable targets."""

from dataclasses import dataclass

from agent.base.flag_values import DURATION, DURATION_OR_NONE, POSITIVE, SWITCH, Form, duration, whole
from agent.base.flags import flag, tuned
from agent.model import target_health
from agent.model.target_health import InvalidTerm


def _failover_after(text: str) -> float:
    try:
        return target_health.failover_after(text)
    except InvalidTerm as error:
        raise ValueError(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class Moves:
    """Moves and failover."""

    moves: bool = flag(
        SWITCH,
        "true",
        "move running pods to another target if theirs is lost or no longer allowed, and read annotations of"
        " Deployments and other owners; off: only annotations of pods and namespaces count, and only for new pods",
    )
    withdraw: float = tuned(
        DURATION_OR_NONE,
        "5s",
        "how long a deleted pod keeps serving after the last cluster has stopped routing traffic to it, if a"
        " Service selects it; 0: not at all",
    )
    move_parallel: int = tuned(
        whole(1),
        "32",
        "largest number of replacements that start at the same time. A replacement counts until it is ready,"
        " at most for a minute, and at most 10 s without a node; the replacement of a lost pod counts until it"
        " has a node",
    )
    move_rate: float = tuned(
        POSITIVE, "10", "largest number of moves that begin per second; moves of pods in lost targets do not count"
    )
    failover_after: float = flag(
        Form("DURATION|never", _failover_after),
        "5m",
        "with moves: how long a target may not answer before its pods are replaced in other targets;"
        " annotations of pods and of the Target override it. never: the pods wait",
    )
    stable_after: float = tuned(
        DURATION,
        "60s",
        "with moves: how long a lost target has to answer before it gets new pods. Each further outage within"
        " an hour doubles it, up to 15m",
    )
    fail_back_after: float = tuned(
        DURATION,
        "10m",
        "with moves: how long a target has to answer and accept pods before pods that prefer it, with"
        " multicluster/fail-back: auto, return to it",
    )
    fence_after: float = tuned(
        duration("1s", "1h"),
        "60s",
        "with moves: how long pods with multicluster/fence: lease run in a target that does not hear from"
        " this cluster, before the target's agent stops them",
    )
    fence_margin: float = tuned(
        DURATION,
        "30s",
        "additional wait, after fence-after and the grace period of a fenced pod, before its replacement"
        " starts. It covers late requests and a change of leader in the target, so it is at least lease-"
        " duration",
    )
