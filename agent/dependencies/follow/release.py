"""Release: remove finalizers of a former Admiralty agent from originals that are being deleted.

Watches  metadata of local ConfigMaps and Secrets; Targets and ClusterTargets.
Writes   the finalizers of originals that are being deleted; deletes their copies in targets.
Flotilla's copies need no finalizers: the UID of the source's cluster identifies a copy without original, which is
deleted once its target is reachable. The finalizer of an unreachable target stays; one without a target is removed. The
finalizer of v0.10 represents all targets.
"""

import contextlib

from agent.api import names
from agent.api.kinds import TARGET_KINDS, Kind
from agent.clusters.copies.admiralty_finalizers import delete_child_of
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.dependencies.follow.kinds import ADMIRALTYS, originals
from agent.kube.errors import NotFound
from agent.kube.store import Object
from agent.model import podstate
from agent.runtime.controller import Controller

Original = tuple[Kind, str, str]


class ReleaseController(Controller[Original]):
    """Reconciles one original, by kind, namespace and name."""

    name = "followrelease"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._held: set[Original] = set()
        self._originals = {kind: originals(deps, kind) for kind in ADMIRALTYS}
        self._targets = deps.local.either(TARGET_KINDS)
        for informer in self._originals.values():
            self.watch(informer, lambda obj: ((obj.kind, *obj.key),) if obj.deleting and _ours(obj) else ())
        for informer in self._targets.informers:
            self.watch(informer, lambda target: tuple(self._held))
        deps.targets.on_change(self._target_changed)

    async def reconcile(self, key: Original) -> float | None:
        """Delete the copies of one original, then remove the finalizers of their targets."""
        kind, namespace, name = key
        original = self._originals[kind].store.get((namespace, name))
        if original is None or not original.deleting or not _ours(original):
            self._held.discard(key)
            return None
        kept = [finalizer for finalizer in original.finalizers if await self._holds(original, finalizer)]
        if kept == original.finalizers:
            self._held.add(key)
            return None
        body = {"metadata": {"resourceVersion": original.version, "uid": original.uid, "finalizers": kept or None}}
        with contextlib.suppress(NotFound):
            await self._client.patch_raw(kind, name, body, namespace)
        return None

    async def _holds(self, original: Object, finalizer: str) -> bool:
        """Return whether a finalizer has to stay: it is foreign, or its target is unreachable."""
        if not podstate.is_target_finalizer(finalizer):
            return True
        if podstate.is_for_all_targets(finalizer):
            return await self._may_have_copies(original)
        target = self._deps.targets.by_finalizer(finalizer)
        if target is None:
            return any(names.finalizer(*obj.key) == finalizer for obj in self._targets)
        return await self._has_copy(target, original)

    async def _has_copy(self, target: Target, original: Object) -> bool:
        """Delete the copy in a target; return whether the target may still have one because it is unreachable."""
        if target.is_self:
            return False
        if not target.ready:
            return True
        await delete_child_of(target, original)
        return False

    async def _may_have_copies(self, original: Object) -> bool:
        """Delete the copies in all targets; return whether any may still have one."""
        known = self._targets.serving(original.namespace)
        unknown = any(self._deps.targets.get(obj.key) is None for obj in known)
        targets = self._deps.targets.serving(original.namespace)
        return any([await self._has_copy(target, original) for target in targets]) or unknown

    def _target_changed(self, target: Target) -> None:
        for key in self._held:
            self.queue.add(key)


def _ours(obj: Object) -> bool:
    return podstate.is_held(obj.finalizers)
