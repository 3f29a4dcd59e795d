"""Permitted: say on a Target which kinds do not follow there because its role for sources does not let us.

Watches  Targets and ClusterTargets; errors of the watches of copies in their clusters.
Writes   the condition Following, where something does not follow, and until it does.
"""

from agent.api.conditions import Status, find_condition, set_condition
from agent.api.kinds import TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.controllers.follow.kinds import KINDS, copies_in
from agent.kube.errors import Forbidden
from agent.kube.store import Key
from agent.model.diff import same
from agent.runtime.controller import Controller

CONDITION = "Following"
_RECHECK_SECONDS = 10.0
_UNSYNCED_SECONDS = 2.0


class PermittedRoom(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "followpermitted"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._objects = deps.local.either(TARGET_KINDS)
        for informer in self._objects.informers:
            self.watch(informer, lambda target: (target.key,))
        deps.targets.on_change(lambda target: self.queue.add(target.key))

    async def reconcile(self, key: Key) -> float | None:
        """Say what does not follow to one target."""
        obj = self._objects.get(key)
        target = self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        refused = self._refused(target)
        if refused is None:
            return _UNSYNCED_SECONDS
        manifest = obj.decode()
        old = (manifest.get("status") or {}).get("conditions")
        if refused or find_condition(old, CONDITION):
            now, generation = self._deps.clock.now(), manifest["metadata"].get("generation")
            new = set_condition(old, CONDITION, *_words(refused), now, generation)
            if not same(old, new):
                body = {"metadata": {"resourceVersion": obj.version}, "status": {"conditions": new}}
                await self._objects.patch(key, body, sub="status")
        return _RECHECK_SECONDS

    def _refused(self, target: Target) -> list[str] | None:
        """Kinds that may not be listed or watched, None while that is not known."""
        informers = [copies_in(target, kind, self._deps.cluster_uid) for kind in KINDS]
        if any(not informer.synced.is_set() and informer.error is None for informer in informers):
            return None
        return [informer.kind.plural for informer in informers if isinstance(informer.error, Forbidden)]


def _words(refused: list[str]) -> tuple[Status, str, str]:
    if not refused:
        return ("True", "Permitted", "what pods name follows them")
    message = (
        f"{' and '.join(refused)} do not follow: the target's Source may not list and watch them; add both verbs to"
        " its role"
    )
    return ("False", "Forbidden", message)
