"""Orphans: say on a Target that chaperons there are held whose pods this cluster seems to have forgotten.

Watches  Targets and ClusterTargets; what is held (`agent.clusters.brake`).
Writes   the condition OrphansDeleted, where something is held and afterwards; one Warning event when that begins.
Absent target: what was said last stays.
"""

from agent.api import names
from agent.api.conditions import Status, find_condition, set_condition
from agent.api.kinds import CLUSTER_TARGETS, TARGETS
from agent.clusters.brake import LOOK_SECONDS
from agent.clusters.deps import Deps
from agent.clusters.orphans import Hold
from agent.kube.store import Key
from agent.model.diff import same
from agent.runtime.controller import Controller

CONDITION = "OrphansDeleted"
REASON = "OrphansHeld"


class OrphansRoom(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "orphans"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._objects = {kind: deps.local.informer(kind) for kind in (TARGETS, CLUSTER_TARGETS)}
        for informer in self._objects.values():
            self.watch(informer, lambda target: (target.key,))
        deps.brake.on_change(lambda target: self.queue.add(target.key))

    async def reconcile(self, key: Key) -> float | None:
        """Say what is held in one target."""
        kind = TARGETS if key[0] else CLUSTER_TARGETS
        obj, target = self._objects[kind].store.get(key), self._deps.targets.get(key)
        if obj is None or target is None or not target.ready:
            return None
        manifest = obj.decode()
        old = (manifest.get("status") or {}).get("conditions")
        told = find_condition(old, CONDITION)
        held = self._deps.brake.held(target)
        if held is not None or (told is not None and told["status"] == "False"):
            # Nobody else may ask: after a restart, or when somebody has deleted them by hand.
            wait, held = self._deps.brake.wait(target), self._deps.brake.held(target)
            if held is None and wait > 0:
                return wait
        if held is None and told is None:
            return None
        words, metadata = _words(held), manifest["metadata"]
        new = set_condition(old, CONDITION, *words, self._deps.clock.now(), metadata.get("generation"))
        if not same(old, new):
            body = {"metadata": {"resourceVersion": obj.version}, "status": {"conditions": new}}
            raw = await self._deps.local.client.patch_raw(kind, obj.name, body, obj.namespace, sub="status")
            self._objects[kind].absorb(raw)
        if held is not None and (told is None or told["status"] != "False"):
            self._deps.recorder.event(manifest, "Warning", REASON, words[2])
        return LOOK_SECONDS if held is not None else None


def _words(held: Hold | None) -> tuple[Status, str, str]:
    if held is None:
        return ("True", "NothingHeld", "no pod chaperons of this cluster are held there")
    message = (
        f"{held.orphans} of {held.chaperons} pod chaperons of this cluster there are for pods that it does not know."
        f" Some were made after {held.token}, when no agent led as far as is known here: etcd seems to be restored from"
        " a backup. Their pods run on, and what these need stays; `flotilla orphans` shows it in that cluster. To have"
        f" it deleted, annotate this target with {names.SHORT_PREFIX}{names.DELETE_ORPHANS}={held.token}"
    )
    return ("False", REASON, message)
