"""Targets: publish the ManagedCluster of each Target's cluster.

Watches  Targets, ClusterTargets, and ManagedClusters if Placements are served.
Writes   `status.managedCluster` of Targets and ClusterTargets; their condition ManagedCluster after a first failure.
A Target whose cluster is not known yet is left unchanged, as is the status of an unreachable Target. A ManagedCluster
is only named once it exists.
"""

from typing import TYPE_CHECKING

from agent.clusters.deps import Deps
from agent.clusters.target_condition import TargetCondition, Words
from agent.kube.store import Key
from agent.placement.managed_clusters.gather import QUIET_SECONDS, ClusterNaming
from agent.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.placement.managed_clusters.naming import Found

CONDITION = "ManagedCluster"
FIELD = "managedCluster"
ALL: Key = ("", "")
_NOT_SERVED = Words("True", "NotServed", "there are no Placements in this cluster")


class TargetClusterController(Controller[Key]):
    """Controller with the keys of Targets; the key `ALL` computes which of them have another ManagedCluster now."""

    name = "targetclusters"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._placement = deps.placement
        self._condition = TargetCondition(deps, CONDITION)
        self._said: Mapping[Key, Found] = {}
        self._naming = ClusterNaming(deps, lambda: self.queue.add_after(ALL, QUIET_SECONDS))
        for informer in self._naming.targets.informers:
            self.watch(informer, lambda target: (target.key,))

    async def reconcile(self, key: Key) -> float | None:
        """Publish the ManagedCluster of one Target."""
        if key == ALL:
            self._look_again()
            return None
        obj = self._naming.targets.get(key)
        if obj is None:
            return None
        if self._placement.mode == "off":
            await self._condition.say(obj, _NOT_SERVED, **{FIELD: None})
            return None
        one = self._naming.found.get(key)
        if one is not None and self._naming.is_there(one):
            words = Words("True", "Found", f"it is {one.name}") if one.name else Words("False", one.reason, one.message)
            await self._condition.say(obj, words, **{FIELD: one.name or None})
        return None

    def _look_again(self) -> None:
        found = {key: one for key, one in self._naming.found.items() if self._naming.is_there(one)}
        off = self._placement.mode == "off"
        for each in {target.key for target in self._naming.targets} if off else {*self._said, *found}:
            if off or self._said.get(each) != found.get(each):
                self.queue.add(each)
        self._said = found
