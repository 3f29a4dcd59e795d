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
        "how long a pod that is deleted serves on after the last cluster has stopped routing to it, where a Service"
        " selects it; 0: it ends at once",
    )
    move_parallel: int = tuned(
        whole(1),
        "32",
        "replacements that start at the same time; each counts until it is ready, for a minute at most, and without a"
        " node for 10 s; that of a lost pod until it has a node",
    )
    move_rate: float = tuned(
        POSITIVE, "10", "moves that may begin in a second; those of pods in lost targets do not count"
    )
    failover_after: float = flag(
        Form("DURATION|never", _failover_after),
        "5m",
        "with moves: how long a target may give no answer before its pods are replaced elsewhere, where neither they"
        " nor the Target say so; never: they wait for it",
    )
    stable_after: float = tuned(
        DURATION,
        "60s",
        "with moves: how long a target that was lost has to answer before it has new pods; twice as long with each"
        " further outage within the hour, 15m at most",
    )
    fail_back_after: float = tuned(
        DURATION,
        "10m",
        "with moves: how long a target has to have answered, and been open for new pods, before pods that prefer it,"
        " and that say multicluster/fail-back: auto, go back to it",
    )
    fence_after: float = tuned(
        duration("1s", "1h"),
        "60s",
        "with moves: how long the agent of a target that hears nothing from here lets pods run that are annotated"
        " multicluster/fence: lease, before it stops them",
    )
    fence_margin: float = tuned(
        DURATION,
        "30s",
        "how much longer than that, and than the pod's grace, it takes before another one starts elsewhere: the agent"
        " there may just have failed, and another follow it (so lease-duration at least); requests may be late",
    )
