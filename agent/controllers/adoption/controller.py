"""Adoption: chaperons that Admiralty's agent, here before us, has made of our proxy pods carry our cluster's UID.

Watches  our chaperons in targets, proxy pods here.
Writes   that label of chaperons, over the very version that was seen. Nothing else.
By the UID they are ours also once their proxy pod is gone, which Admiralty's finalizers do not keep: they are deleted
then as any other, and a target that is let go of is not empty before. Absent target: adopted when it is back. A target
that does not let us: they stay what they were.
"""

import contextlib
from weakref import WeakSet

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.clusters.chaperons import Placed
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import Conflict, Forbidden, NotFound, Unreachable
from agent.kube.store import Key, Object
from agent.model.podstate import home_node
from agent.runtime.controller import Controller


class AdoptionRoom(Controller[Key]):
    """Keys are those of proxy pods; hardly ever is there one."""

    name = "adoption"
    workers = 8

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._proxies = deps.proxies.informer
        self._ready: WeakSet[Target] = WeakSet()
        self.watch(self._proxies, lambda pod: (pod.key,) if self._adoptable(pod.key) else ())
        deps.chaperons.subscribe(lambda parent: self.queue.add(parent) if self._adoptable(parent) else None)
        deps.targets.on_change(self._target_changed)

    async def reconcile(self, key: Key) -> float | None:
        """Adopt what one proxy pod has."""
        for placed in self._adoptable(key):
            await self._adopt(placed.target, placed.chaperon)
        return None

    def _adoptable(self, key: Key) -> list[Placed]:
        """Chaperons without a UID of any cluster that stand for a pod where it is."""
        found = [
            each for each in self._deps.chaperons.of(key) if names.LABEL_PARENT_CLUSTER_UID not in each.chaperon.labels
        ]
        pod = self._proxies.store.get(key) if found else None
        if pod is None:
            return []
        home = home_node(pod)
        return [
            each
            for each in found
            if each.target.ready and each.target.node_name == home and each.is_of(pod) and not each.chaperon.deleting
        ]

    def _target_changed(self, target: Target) -> None:
        if not target.ready:
            self._ready.discard(target)
        elif target not in self._ready:
            self._ready.add(target)
            for key in self._deps.chaperons.parents(target):
                if self._adoptable(key):
                    self.queue.add(key)

    async def _adopt(self, target: Target, chaperon: Object) -> None:
        labels = {names.LABEL_PARENT_CLUSTER_UID: self._deps.cluster_uid}
        body = {"metadata": {"uid": chaperon.uid, "resourceVersion": chaperon.version, "labels": labels}}
        try:
            with contextlib.suppress(NotFound, Conflict, Forbidden):
                raw = await target.port.patch_raw(CHAPERONS, chaperon.name, body, chaperon.namespace)
                target.chaperons.absorb(raw)
        except Unreachable:
            target.probe_now()
            raise
