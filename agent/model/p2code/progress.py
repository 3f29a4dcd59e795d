"""What has become of the workloads of an application: how many pods are ready, which cannot follow a decision. Pure."""

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
"""Of the reasons why a pod is not where it should be, those with which it stays where it is."""
MOVES_OFF = "MovesOff"
"""Reason where the agent moves no pods that run."""
_OFF = "the agent moves none: set agent.settings.moves=true"
_NAMED = 20
_SHOWN = 3


class Stuck(NamedTuple):
    """A pod that is not where it should be, and stays there."""

    pod: str
    reason: str
    message: str


class There(NamedTuple):
    """A workload as it is there."""

    raw: Raw | None = None
    """None for one that is not."""
    stuck: Sequence[Stuck] = ()
    left: Sequence[str] = ()
    """Names of pods that are not where they should be, where the agent moves none."""


Workloads = Callable[[Identity], There]


class Count(NamedTuple):
    """Pods of a workload, or of all of a bundle."""

    ready: int
    wanted: int


def readiness(bundles: Sequence[Bundle], workloads: Workloads) -> Told:
    """How many pods of each bundle are ready, of how many; those that lack some first."""
    counts = []
    for bundle in bundles:
        found = [count(each, workloads(each.identity).raw) for each in bundle.manifests if each.is_workload]
        counts.append((bundle.name, Count(sum(each.ready for each in found), sum(each.wanted for each in found))))
    counts.sort(key=lambda item: item[1].ready >= item[1].wanted)
    lacking = any(found.ready < found.wanted for _, found in counts)
    told = abridged([f"{name} {found.ready} of {found.wanted}" for name, found in counts], _NAMED)
    return Told(READY, "NotReady" if lacking else "Ready", f"ready: {told}", "False" if lacking else "True")


def count(manifest: Manifest, there: Raw | None) -> Count:
    """Pods of one workload; a CronJob wants none, for its Jobs have their times."""
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
    """Bundles with pods that stay where they are though they should be elsewhere, and why."""
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
    """Which pods stay where they are, and what to do about it."""
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
    """Why a pod stays where it should not be, as its condition of this type says; None for one that does not."""
    told = find_condition(at(pod, "status").get("conditions"), condition) or {}
    reason = str(told.get("reason") or "")
    if told.get("status") != "False" or reason not in STUCK:
        return None
    return Stuck(pod["metadata"]["name"], reason, str(told.get("message") or ""))


def _number(raw: Raw, field: str, default: int) -> int:
    found = raw.get(field)
    return found if isinstance(found, int) else default
