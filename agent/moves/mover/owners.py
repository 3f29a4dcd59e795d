"""Decides how an owner's pods move, from its manifest: replacement first, eviction, or not at all. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from agent.api import names
from agent.api.names import moves
from agent.moves.mover.view import MoveMode, Owner

Raw = Mapping[str, Any]

REPLICA_SET, STATEFUL_SET, JOB, DEPLOYMENT = "ReplicaSet", "StatefulSet", "Job", "Deployment"
READ = (REPLICA_SET, STATEFUL_SET, JOB)
"""Kinds of owners that are read from the API server."""
_DAEMON_SET = "DaemonSet"
_DEFAULT_SURGE = "25%"
_NEVER = f"{names.SHORT_PREFIX}{moves.MOVE} says {moves.NEVER}"
_ASKED = f"{names.SHORT_PREFIX}{moves.MOVE} says {moves.EVICT}"
_FINISH = f"finish where they are: {names.SHORT_PREFIX}{moves.MOVE}={moves.EVICT} has them evicted"


@dataclass(frozen=True)
class OwnerPods:
    """Facts that decide how an owner's pods move, in addition to the owner's manifest."""

    move: str = ""
    """Effective value of the annotation `multicluster/move`; empty if unset."""
    claims: bool = False
    """Whether they have volume claims: two pods may be unable to share a volume."""
    ends: bool = False
    """Whether they run to completion: their owner may not recreate an evicted one."""
    unable: str = ""
    """Why no replacement can be created for them; empty if no obstacle is known."""


def owner(kind: str, obj: Raw | None, parent: Raw | None, asked: OwnerPods) -> Owner:
    """Return an owner with the way in which its pods move.

    :param kind: empty for a pod without a controller
    :param obj: current manifest of the owner; None if its kind is not read
    :param parent: controller of the owner; None if it has none, with the kind alone if that kind is not read
    """
    name = str(obj["metadata"]["name"]) if obj is not None else ""
    if not kind:
        return _stays("Pod", name, "nothing makes it again")
    if plain(kind) == _DAEMON_SET:
        return _stays(kind, name, "the pods of a DaemonSet belong to their nodes")
    if asked.move == moves.NEVER:
        return _stays(kind, name, _NEVER)
    if plain(kind) == JOB or (obj is None and asked.ends):
        if asked.move != moves.EVICT:
            runs = "" if plain(kind) == JOB else " that run to an end"
            return replace(_stays(kind, name, f"the pods of a {kind}{runs} {_FINISH}"), remakes=True)
        return Owner(kind, name, "evict", _ASKED, replicas=0, remakes=True)
    if obj is None:
        why = _ASKED if asked.move == moves.EVICT else f"a {kind} may not have two pods in place of one"
        return Owner(kind, name, "evict", why, replicas=0, doubted=asked.move != moves.EVICT)
    replicas = _number(obj["spec"].get("replicas"), 1)
    if kind == STATEFUL_SET:
        why, held = "a StatefulSet has one pod of a name", _updating(obj, replicas)
        return Owner(kind, name, "evict", why, held, replicas, unseen=bool(_held(obj)))
    way, why, surge = _manner(replicas, parent, asked)
    if not parent or parent.get("kind") != DEPLOYMENT:
        return Owner(kind, name, way, why, "", replicas, surge)
    return Owner(kind, name, way, why, _rolling_out(parent), replicas, surge, unseen=bool(_held(parent)))


def plain(kind: str) -> str:
    """Return a kind without the group that distinguishes it from a kind of Kubernetes."""
    return kind.partition(".")[0]


def _stays(kind: str, name: str, why: str) -> Owner:
    return Owner(kind, name, "stay", why, replicas=0)


def _manner(replicas: int, parent: Raw | None, asked: OwnerPods) -> tuple[MoveMode, str, int]:
    """Return how the pods of a ReplicaSet move, why they are evicted if so, and how many extra pods may exist."""
    quarter = max(1, replicas // 4)
    surge = quarter if parent is None else min(quarter, _most_surge(parent, replicas))
    for reason, why in (
        (asked.move == moves.EVICT, _ASKED),
        (parent is not None and parent.get("kind") != DEPLOYMENT, "its ReplicaSet is not that of a Deployment"),
        (surge == 0, "its Deployment may not have more pods than it wants (maxSurge 0, or Recreate)"),
        (asked.claims, "its volume claims may not be shared by two pods"),
        (bool(asked.unable), asked.unable),
    ):
        if reason:
            return "evict", why, 0
    return "surge", "", surge


def _most_surge(deployment: Raw, replicas: int) -> int:
    strategy = (deployment.get("spec") or {}).get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0
    given = (strategy.get("rollingUpdate") or {}).get("maxSurge", _DEFAULT_SURGE)
    if isinstance(given, int):
        return given
    share = str(given).removesuffix("%")
    return ceil(Fraction(int(share), 100) * replicas) if share.isascii() and share.isdecimal() else 0


def _held(obj: Raw) -> str:
    """Return why no move may begin: the owner's controller has not observed its generation. Empty if it has."""
    status = obj.get("status") or {}
    if _number(status.get("observedGeneration"), 0) < _number(obj["metadata"].get("generation"), 0):
        return "its owner has changed, and its controller has not seen that yet"
    return ""


def _updating(stateful_set: Raw, replicas: int) -> str:
    """Return why no pod of a StatefulSet may be evicted: its controller rolls out an update. Empty if it does not.

    With the strategy OnDelete the controller updates no pod, so nothing has to be waited for.
    """
    if held := _held(stateful_set):
        return held
    strategy, status = stateful_set["spec"].get("updateStrategy") or {}, stateful_set.get("status") or {}
    updated = status.get("updateRevision")
    if not updated or status.get("currentRevision") == updated or strategy.get("type") == "OnDelete":
        return ""
    partition = _number((strategy.get("rollingUpdate") or {}).get("partition"), 0)
    rolls_out = _number(status.get("updatedReplicas"), 0) < replicas - partition
    return "its StatefulSet rolls out" if rolls_out else ""


def _rolling_out(deployment: Raw) -> str:
    spec, status = deployment["spec"], deployment.get("status") or {}
    if spec.get("paused"):
        return "its Deployment is paused"
    if held := _held(deployment):
        return held
    rolls_out = _number(status.get("replicas"), 0) > _number(status.get("updatedReplicas"), 0)
    return "its Deployment rolls out" if rolls_out else ""


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default
