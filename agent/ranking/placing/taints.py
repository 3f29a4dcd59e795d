"""Taints of ManagedClusters and tolerations of Placements; `tolerationSeconds` count from the taint's `timeAdded`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from agent.api.names.ocm import OURS, TAINT_UNREACHABLE
from agent.ranking.placing.inputs import ClusterTaint, ManagedCluster
from agent.ranking.placing.spec import Toleration

FOREVER = datetime.max.replace(tzinfo=UTC)
_NEVER = datetime.min.replace(tzinfo=UTC)


class Verdict(NamedTuple):
    """Result of the taints of one cluster."""

    refusal: str = ""
    """Why the cluster is excluded; empty if it is not."""
    until: datetime = FOREVER
    """First expiry of a toleration in effect; FOREVER if none expires."""
    avoided: int = 0
    """Number of untolerated taints with PreferNoSelect."""


_NO_TAINTS = Verdict()


def judge(cluster: ManagedCluster, tolerations: Sequence[Toleration], is_decided: bool, now: datetime) -> Verdict:
    """Return whether the taints allow a decision for the cluster, or to keep one."""
    if not cluster.taints:
        return _NO_TAINTS
    until, avoided = FOREVER, 0
    # A taint of our own without `timeAdded` was added just now: its time is about to be written.
    unwritten = now if OURS in cluster.labels else None
    for taint in cluster.taints:
        if taint.effect == "NoSelectIfNew" and is_decided:
            continue
        tolerated = _tolerated_until(taint, tolerations, taint.added or unwritten)
        if tolerated is not None and tolerated > now:
            until = min(until, tolerated)
        elif taint.effect == "PreferNoSelect":
            avoided += 1
        else:
            says = "is not tolerated" if tolerated is None else "is tolerated no longer, its tolerationSeconds are over"
            return Verdict(f"taint {taint} {says}")
    return Verdict("", until, avoided)


def is_silent(cluster: ManagedCluster) -> bool:
    """Return True if a cluster does not answer and is not lost yet: its scores may be missing or old."""
    return any((taint.key, taint.effect) == (TAINT_UNREACHABLE, "NoSelectIfNew") for taint in cluster.taints)


def _tolerated_until(taint: ClusterTaint, tolerations: Sequence[Toleration], added: datetime | None) -> datetime | None:
    """Return when the last toleration of a taint expires; None without a toleration."""
    found = None
    for toleration in tolerations:
        if _matches(toleration, taint):
            until = _until(added, toleration)
            found = until if found is None else max(found, until)
    return found


def _matches(toleration: Toleration, taint: ClusterTaint) -> bool:
    return (
        (not toleration.effect or toleration.effect == taint.effect)
        and (not toleration.key or toleration.key == taint.key)
        and (toleration.exists or toleration.value == taint.value)
    )


def _until(added: datetime | None, toleration: Toleration) -> datetime:
    if toleration.seconds is None:
        return FOREVER
    if added is None:
        return _NEVER
    try:
        return added + timedelta(seconds=toleration.seconds)
    except OverflowError:
        return FOREVER if toleration.seconds > 0 else _NEVER
