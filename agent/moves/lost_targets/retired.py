"""Retired: reports the progress of targets that are being emptied.

Watches  Targets and ClusterTargets, proxy pods while some Target is being emptied.
Writes   the condition Retired of Targets that are or were to be emptied.
Absent target: all pods that are bound to its virtual node count.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from agent.api import names
from agent.api.names import lifecycle, moves
from agent.clusters.deps import Deps
from agent.clusters.target_condition import TargetCondition, Words
from agent.kube.store import Key, Object
from agent.model.abridged import abridged
from agent.model.podstate import ENDED
from agent.model.target_health import standing
from agent.runtime.controller import Controller

PAUSE_SECONDS = 1.0
"""Seconds between two writes for one target: many of its pods may move at once."""
BLOCKING = ("NoRoom", "Held", "DataElsewhere", "IdentityMayRun")
"""Reasons of the condition Placed of pods that do not move without an action or an event."""
_SHOWN = 5
_OPEN = Words("False", "InUse", "the target is not to be emptied")


class Left(NamedTuple):
    """A pod that is still bound to the virtual node."""

    title: str
    reason: str = ""
    """Reason of its condition Placed; empty if the pod is not held, or is being deleted."""
    message: str = ""


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Pod(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Pod)


class RetiredController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "retired"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._proxies = deps.proxies
        self._condition = TargetCondition(deps, lifecycle.RETIRED)
        self._retiring: dict[str, Key] = {}
        """Targets that are to be emptied, by virtual node."""
        self._written_at: dict[Key, float] = {}
        for informer in self._condition.objects.informers:
            self.watch(informer, lambda target: [target.key])
        self.watch(self._proxies.informer, self._there)

    async def reconcile(self, key: Key) -> float | None:
        """Write the condition Retired of one target."""
        obj, node = self._condition.objects.get(key), names.virtual_node(*key)
        if obj is None or not standing(obj.decode()).retiring:
            self._retiring.pop(node, None)
            self._written_at.pop(key, None)
            if obj is not None and self._condition.status(obj):
                await self._condition.write(obj, _OPEN)
            return None
        self._retiring[node] = key
        wait = self._written_at.get(key, -PAUSE_SECONDS) + PAUSE_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        self._written_at[key] = time.monotonic()
        await self._condition.write(obj, words(left(self._proxies.bound_to(node))))
        return None

    def _there(self, pod: Object) -> Iterable[Key]:
        key = self._retiring.get(pod.node_name) if self._retiring else None
        return [key] if key is not None else ()


def left(pods: Iterable[Object]) -> list[Left]:
    """Return the pods that have not ended yet."""
    found = []
    for pod in pods:
        if pod.phase in ENDED:
            continue
        told = next((each for each in _conditions(pod) if each.type == moves.CONDITION), _Condition())
        stays = told.status == "False" and not pod.deleting
        found.append(Left("/".join(pod.key), told.reason if stays else "", told.message if stays else ""))
    return sorted(found)


def _conditions(pod: Object) -> list[_Condition]:
    return _decoder.decode(pod.raw).status.conditions


def words(pods: list[Left]) -> Words:
    """Return status, reason and message of the condition."""
    if not pods:
        return Words("True", lifecycle.EMPTY, "no pod of this cluster is left there")
    many = f"{len(pods)} pods are" if len(pods) > 1 else "1 pod is"
    blocked = [pod for pod in pods if pod.reason in BLOCKING]
    if not blocked:
        return Words("False", lifecycle.EMPTYING, f"{many} still there")
    reasons = []
    for reason in BLOCKING:
        found = [pod for pod in blocked if pod.reason == reason]
        if found:
            reasons.append(f"{reason}: {abridged([pod.title for pod in found], _SHOWN)} ({found[0].message})")
    return Words("False", lifecycle.BLOCKED, f"{many} still there; {'; '.join(reasons)}")
