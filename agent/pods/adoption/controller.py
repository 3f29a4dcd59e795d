"""Adoption: add this cluster's UID to chaperons that Admiralty's agent, which ran here before, created for proxy pods.

Watches  chaperons in targets, local proxy pods.
Writes   only that label of chaperons, guarded by the version that was seen.
The UID identifies them even after their proxy pod was deleted, which Admiralty's finalizers do not prevent. They are
then deleted like any other, and a target does not count as empty before. Those in an absent target are adopted when it
returns. If a target refuses, they stay unchanged.
"""

import contextlib
from weakref import WeakSet

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.clusters.deps import Deps
from agent.clusters.stores.chaperons import Placed
from agent.clusters.target import Target
from agent.kube.errors import Conflict, Forbidden, NotFound, Unreachable
from agent.kube.store import Key, Object
from agent.model.podstate import home_node
from agent.runtime.controller import Controller


class AdoptionController(Controller[Key]):
    """Keys are those of proxy pods; there is rarely any."""

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
        """Adopt the chaperons of one proxy pod."""
        for placed in self._adoptable(key):
            await self._adopt(placed.target, placed.chaperon)
        return None

    def _adoptable(self, key: Key) -> list[Placed]:
        """Return the chaperons without a cluster UID whose proxy pod exists and uses that target."""
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
