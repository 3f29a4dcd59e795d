"""Progress of an application's workloads: numbers of ready pods, and pods that cannot follow a decision. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agent.api.conditions import find_condition, is_true
from agent.model.abridged import abridged
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.manifests import Identity, Manifest, at
from agent.model.p2code.status import Told

Raw = Mapping[str, Any]

READY = "WorkloadsReady"
CANNOT_MOVE = "CannotMove"
STUCK = frozenset(("Held", "NoRoom", "DataElsewhere", "IdentityMayRun"))
"""Reasons of misplaced pods with which they stay in their present cluster."""
MOVES_OFF = "MovesOff"
"""Reason if the agent does not move running pods."""
_OFF = "the agent moves none: remove agent.settings.moves=false"
_NAMED = 20
_SHOWN = 3


class Stuck(NamedTuple):
    """A misplaced pod that stays in its present cluster."""

    pod: str
    reason: str
    message: str


class There(NamedTuple):
    """Live state of a workload."""

    raw: Raw | None = None
    """None if the workload does not exist."""
    stuck: Sequence[Stuck] = ()
    left: Sequence[str] = ()
    """Names of misplaced pods, if the agent does not move pods."""


Workloads = Callable[[Identity], There]


class Count(NamedTuple):
    """Pods of a workload, or of all workloads in a bundle."""

    ready: int
    wanted: int


def readiness(bundles: Sequence[Bundle], workloads: Workloads) -> Told:
    """Return the condition with ready and wanted pods of each bundle; bundles that are not ready come first."""
    counts = []
    for bundle in bundles:
        found = [count(each, workloads(each.identity).raw) for each in bundle.manifests if each.is_workload]
        counts.append((bundle.name, Count(sum(each.ready for each in found), sum(each.wanted for each in found))))
    counts.sort(key=lambda item: item[1].ready >= item[1].wanted)
    lacking = any(found.ready < found.wanted for _, found in counts)
    told = abridged([f"{name} {found.ready} of {found.wanted}" for name, found in counts], _NAMED)
    return Told(READY, "NotReady" if lacking else "Ready", f"ready: {told}", "False" if lacking else "True")


def count(manifest: Manifest, there: Raw | None) -> Count:
    """Return the pods of one workload; a CronJob wants none, since its Jobs run on schedule."""
    found = there if there is not None else manifest.raw
    spec, status = at(found, "spec"), at(found, "status") if there is not None else {}
    match manifest.kind:
        case "CronJob":
            return Count(0, 0)
        case "Pod":
            ready = status.get("phase") == "Succeeded" or is_true(status.get("conditions"), "Ready")
            return Count(int(ready), 1)
        case "Job":
            if spec.get("suspend") is True:
                return Count(0, 0)
            parallel = _number(spec, "parallelism", 1)
            wanted = _number(spec, "completions", parallel)
            if is_true(status.get("conditions"), "Complete"):
                return Count(wanted, wanted)
            done = _number(status, "succeeded", 0)
            left = min(parallel, max(0, wanted - done))
            return Count(min(done + _number(status, "ready", 0), done + left), done + left)
        case "DaemonSet":
            return Count(_number(status, "numberReady", 0), _number(status, "desiredNumberScheduled", 1))
        case _:
            wanted = _number(spec, "replicas", 1)
            return Count(min(_number(status, "readyReplicas", 0), wanted), wanted)


def cannot_move(bundles: Sequence[Bundle], workloads: Workloads) -> Told:
    """Return the condition about bundles with misplaced pods that stay, with the reasons."""
    reasons, words = [], []
    for bundle in bundles:
        for each in bundle.manifests:
            there = workloads(each.identity) if each.is_workload else There()
            for stuck in sorted(there.stuck):
                reasons.append(stuck.reason)
                words.append(f"workload {bundle.name}: pod {stuck.pod}: {stuck.message}")
            if there.left:
                reasons.append(MOVES_OFF)
                words.append(f"workload {bundle.name}: {_left(each, there.left)}")
    return Told(CANNOT_MOVE, next(iter(reasons), ""), abridged(words, _SHOWN, "; "))


def _left(workload: Manifest, pods: Sequence[str]) -> str:
    """Return the message about pods that stay, with the remedy."""
    what, where = f"{workload.kind.lower()}/{workload.name}", f"-n {workload.namespace}"
    match workload.kind:
        case "Pod":
            remedy = "it never moves: delete it, and it is made anew there"
        case "Job":
            remedy = f"it finishes where it is, or is made anew there: kubectl delete {where} {what}"
        case "CronJob":
            remedy = "what has begun finishes where it is"
        case "ReplicaSet":
            remedy = f"{_OFF}, or delete its pods"
        case _:
            remedy = f"{_OFF}, or kubectl rollout restart {where} {what}"
    return f"pods of {what} are elsewhere ({abridged(sorted(pods), _SHOWN)}): {remedy}"


def stuck_of(pod: Raw, condition: str) -> Stuck | None:
    """Return why a misplaced pod stays, by its condition of this type; None if it does not."""
    told = find_condition(at(pod, "status").get("conditions"), condition) or {}
    reason = str(told.get("reason") or "")
    if told.get("status") != "False" or reason not in STUCK:
        return None
    return Stuck(pod["metadata"]["name"], reason, str(told.get("message") or ""))


def _number(raw: Raw, field: str, default: int) -> int:
    found = raw.get(field)
    return found if isinstance(found, int) else default
