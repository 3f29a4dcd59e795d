"""Cleanup: removes finalizers of proxy pods that belong to no target, so that the pods can be deleted.

Watches  proxy pods, Targets, ClusterTargets.
Writes   the finalizers of proxy pods, nothing else.
Absent target: if its Target is being deleted, it releases its pods after `release_after` seconds. Otherwise it keeps
them, and feedback removes the finalizer when the target answers again. A target that a user declared lost releases
claimed pods that are not bound, so that they get another target. The one finalizer that v0.10 put on a pod for all
targets stays until no target can have a delegate without a finalizer of its own.
"""

import contextlib
from collections.abc import Iterable, Mapping

from agent.api import names
from agent.api.kinds import TARGET_KINDS
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.clusters.health.declared_lost import DeclaredLost
from agent.clusters.target import Target
from agent.kube.errors import NotFound
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.pods.orphan_finalizers.decide import Known, decide
from agent.runtime.controller import Controller


class OrphanFinalizersController(Controller[Key]):
    """Keys are those of proxy pods."""

    name = "cleanup"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._release_after = deps.settings.release_after
        self._live: tuple[int, int, frozenset[Key]] = (0, -1, frozenset())
        self._pods = deps.proxies.informer
        self._targets = deps.local.either(TARGET_KINDS)
        self._staying: set[str] = set()
        """Finalizers of Targets that are not being deleted."""
        # Its stores tell it before they tell us.
        self._lost = DeclaredLost(deps.local, lambda finalizer: None)
        for informer in self._targets.informers:
            self.watch(informer, self._held_by)
        self.watch(self._pods, self._suspicious)
        deps.targets.on_change(self._target_changed)

    async def reconcile(self, key: Key) -> float | None:
        """Remove from one proxy pod what belongs to no target."""
        pod = self._pods.store.get(key)
        if pod is None:
            return None
        known = {known.finalizer: known for known in self._known(pod)}
        needs_old = any(map(podstate.is_for_all_targets, pod.finalizers)) and self._needs_old(pod, known)
        removal = decide(pod.finalizers, known, needs_old=needs_old)
        unknown = set(removal.remove)
        if unknown - known.keys():
            unknown -= await self._appeared(pod)
        if unknown:
            await self._remove(pod, unknown)
        return removal.again

    def _needs_old(self, pod: Object, known: Mapping[str, Known]) -> bool:
        """Whether a target may have a delegate of a pod, and the pod no other finalizer of a target."""
        if any(finalizer in known for finalizer in pod.finalizers):
            return False
        if any(each.is_of(pod) for each in self._deps.chaperons.of(pod.key)):
            return True
        serving = self._targets.serving(pod.namespace)
        return any(known[names.finalizer(*obj.key)].free_in != 0 and not self._is_ready(obj) for obj in serving)

    def _is_ready(self, target: Object) -> bool:
        connected = self._deps.targets.get(target.key)
        return connected is not None and connected.ready

    def _known(self, pod: Object) -> list[Known]:
        return [Known(names.finalizer(*obj.key), self._free_in(obj, pod)) for obj in self._targets]

    def _free_in(self, target: Object, pod: Object) -> float | None:
        deleted_at = target.head.metadata.deletion_timestamp
        if self._is_ready(target):
            return None
        if deleted_at is None:
            waits = not pod.node_name and podstate.claimed_node(pod) == names.virtual_node(*target.key)
            return 0.0 if waits and names.finalizer(*target.key) in self._lost.finalizers else None
        age = (self._deps.clock.now() - parse(deleted_at)).total_seconds()
        return max(0.0, self._release_after - age)

    async def _appeared(self, pod: Object) -> frozenset[str]:
        """Finalizers of Targets that are there although our store has not seen them.

        A pod may be told before the Target that it was made for, so the API server is asked: once for all pods that
        are not newer than its answer, which holds for no later history.
        """
        history, version, keys = self._live
        if int(pod.version) > version or history != self._pods.rollbacks:
            history = self._pods.rollbacks
            lists = [await self._client.list_raw(kind) for kind in TARGET_KINDS]
            version = min(int(version) for version, _ in lists)
            keys = frozenset(
                Object(kind, bytes(item)).key
                for kind, (_, items) in zip(TARGET_KINDS, lists, strict=True)
                for item in items
            )
            self._live = (history, version, keys)
        stored = {obj.key for obj in self._targets}
        return frozenset(names.finalizer(*key) for key in keys - stored)

    async def _remove(self, pod: Object, unknown: set[str]) -> None:
        left = podstate.without(pod.finalizers, unknown)
        with contextlib.suppress(NotFound):
            await self._deps.proxies.release(pod.key, pod.uid, pod.version, left)

    def _suspicious(self, pod: Object) -> Iterable[Key]:
        """Called for every change of every proxy pod: nearly always there is nothing to do."""
        for finalizer in pod.finalizers:
            if not self._is_settled(finalizer) and podstate.is_target_finalizer(finalizer):
                return (pod.key,)
        return ()

    def _held_by(self, target: Object) -> list[Key]:
        finalizer, current = names.finalizer(*target.key), self._targets.get(target.key)
        stays = current is not None and not current.deleting
        (self._staying.add if stays else self._staying.discard)(finalizer)
        return [] if self._is_settled(finalizer) else self._holding(target.key)

    def _is_settled(self, finalizer: str) -> bool:
        """Return whether a finalizer is that of a Target that stays and is not declared lost."""
        return finalizer in self._staying and finalizer not in self._lost.finalizers

    def _target_changed(self, target: Target) -> None:
        if not self._is_settled(target.finalizer):
            for key in self._holding(target.key):
                self.queue.add(key)

    def _holding(self, target: Key) -> list[Key]:
        return [pod.key for pod in self._deps.proxies.held_for(names.finalizer(*target))]
