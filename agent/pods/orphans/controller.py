"""Orphans: reports on a Target that it has chaperons of missing pods, whose deletion is held.

Watches  Targets and ClusterTargets; held chaperons (`agent.clusters.stores.orphan_deletion_guard`).
Writes   the condition OrphansDeleted while chaperons are held and afterwards; one Warning event at the beginning.
Absent target: the last condition stays.
"""

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.stores.orphan_deletion_guard import LOOK_SECONDS
from agent.clusters.stores.orphans import Hold
from agent.clusters.target_condition import TargetCondition, Words
from agent.kube.store import Key
from agent.runtime.controller import Controller

CONDITION = "OrphansDeleted"
_NOTHING = Words("True", "NothingHeld", "no pod chaperons of this cluster are held there")


class OrphansController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "orphans"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._targets = deps.targets
        self._guard = deps.orphan_deletion_guard
        self._status_condition = TargetCondition(deps, CONDITION)
        for informer in self._status_condition.objects.informers:
            self.watch(informer, lambda target: (target.key,))
        deps.orphan_deletion_guard.on_change(lambda target: self.queue.add(target.key))

    async def reconcile(self, key: Key) -> float | None:
        """Report the held chaperons of one target."""
        obj, target = self._status_condition.objects.get(key), self._targets.get(key)
        if obj is None or target is None or not target.ready:
            return None
        held = self._guard.held(target)
        if held is not None or self._status_condition.status(obj) == "False":
            # After a restart, or if a user has deleted them, no other controller asks.
            wait, held = self._guard.wait(target), self._guard.held(target)
            if held is None and wait > 0:
                return wait
        await self._status_condition.say(obj, _words(held) if held is not None else _NOTHING)
        return LOOK_SECONDS if held is not None else None


def _words(held: Hold) -> Words:
    unknown = (
        f"{held.orphans} of {held.chaperons} pod chaperons of this cluster there are for pods that it does not know."
    )
    kept = "Their pods run on, and what these need stays."
    if not held.token:
        message = f"{unknown} Another cluster with the UID of this one seems to have made them. {kept}"
        return Words("False", "TwinSource", message)
    message = (
        f"{unknown} Some were made after {held.token}, when no agent led as far as is known here: etcd seems to be"
        f" restored from a backup. {kept} To have it deleted, annotate this target with"
        f" {names.SHORT_PREFIX}{names.DELETE_ORPHANS}={held.token}"
    )
    return Words("False", "OrphansHeld", message)
