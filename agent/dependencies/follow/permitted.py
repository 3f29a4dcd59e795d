"""Permitted: report on a Target which kinds are not copied because its role for sources lacks the rights.

Watches  Targets and ClusterTargets; errors of the watches of copies in their clusters.
Writes   the condition Following from the first refusal on.
"""

from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.clusters.target_condition import TargetCondition, Words
from agent.dependencies.follow.kinds import KINDS, copies_in
from agent.kube.errors import Forbidden
from agent.kube.store import Key
from agent.runtime.controller import Controller

CONDITION = "Following"
_RECHECK_SECONDS = 10.0
_UNSYNCED_SECONDS = 2.0


class PermittedController(Controller[Key]):
    """Reconciles the condition of one Target; a ClusterTarget has an empty namespace."""

    name = "followpermitted"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._condition = TargetCondition(deps, CONDITION)
        for informer in self._condition.objects.informers:
            self.watch(informer, lambda target: (target.key,))
        deps.targets.on_change(lambda target: self.queue.add(target.key))

    async def reconcile(self, key: Key) -> float | None:
        """Report the kinds that are not copied to one target."""
        obj = self._condition.objects.get(key)
        target = self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        refused = self._refused(target)
        if refused is None:
            return _UNSYNCED_SECONDS
        if refused or self._condition.status(obj):
            await self._condition.write(obj, _words(refused))
        return _RECHECK_SECONDS

    def _refused(self, target: Target) -> list[str] | None:
        """Return the kinds that may not be listed or watched; None until that is known."""
        informers = [copies_in(target, kind, self._deps.cluster_uid) for kind in KINDS]
        if any(not informer.synced.is_set() and informer.error is None for informer in informers):
            return None
        return [informer.kind.plural for informer in informers if isinstance(informer.error, Forbidden)]


def _words(refused: list[str]) -> Words:
    if not refused:
        return Words("True", "Permitted", "what pods name follows them")
    message = (
        f"{' and '.join(refused)} do not follow: the target's Source may not list and watch them; add both verbs to"
        " its role"
    )
    return Words("False", "Forbidden", message)
