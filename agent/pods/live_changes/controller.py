"""Live changes: copy changes of a proxy pod to its chaperon.

These are labels, annotations, the mutable part of a bound pod's spec (images, resources, tolerations, deadline,
ephemeral containers), and the statuses of readiness gates.

Watches  local proxy pods, chaperons in targets.
Writes   the chaperon: labels, annotations and one annotation with the changes, which its agent applies to the delegate;
  an event if the target refuses.
Changes for an absent target are written when it returns. A target whose agent publishes no version does not support
live changes and gets none: it would revert annotations endlessly.
"""

from typing import Any
from weakref import WeakKeyDictionary

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.clusters.deps import Deps
from agent.clusters.stores.chaperons import Placed
from agent.clusters.target import Target
from agent.kube.errors import Forbidden, Invalid, NotFound, Unreachable
from agent.kube.store import Key, Object
from agent.model import deletion
from agent.model.errors import InvalidPod
from agent.model.livechanges import changes, chaperon_patch, new_labels, told
from agent.model.proxypod import source_pod
from agent.runtime.controller import Controller

Raw = dict[str, Any]

_READINESS_GATES = b'"readinessGates"'
_AGENT_VERSION = names.ANNOTATION_AGENT_VERSION.encode()


class LiveChanges(Controller[Key]):
    """Reconciles one bound proxy pod at a time whose generation or metadata changed."""

    name = "livechanges"
    workers = 32

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._known: WeakKeyDictionary[Target, bool] = WeakKeyDictionary()
        """Whether targets could receive changes when last checked."""
        self._proxies = deps.proxies.informer
        self.watch(self._proxies, lambda pod: ())
        self._proxies.subscribe(self._changed)
        deps.unlabelled.on_found(self.queue.add)
        deps.targets.on_attach(self._watch_version)
        deps.targets.on_change(self._target_changed)

    def lane(self, key: Key) -> str | None:
        """Use one lane per target, so that an unresponsive one delays no other."""
        proxy = self._proxies.store.get(key)
        return proxy.node_name or None if proxy is not None else None

    async def reconcile(self, key: Key) -> float | None:
        """Write the changes that the chaperon does not have yet."""
        proxy = self._proxies.store.get(key)
        if proxy is None or proxy.deleting:
            return None
        if not proxy.node_name:
            await self._label_candidates(proxy)
            return None
        target = self._deps.targets.by_node(proxy.node_name)
        placed = self._placed(proxy, target)
        if target is None or placed is None or not target.ready or not _understands(target):
            return None
        manifest = proxy.decode()
        try:
            chaperon = placed.chaperon.decode()
            changed = changes(manifest, source_pod(manifest), chaperon)
            lacking = new_labels(manifest, changed, chaperon, self._deps.cluster_uid)
            patch = chaperon_patch(changed, chaperon, lacking)
        except InvalidPod as error:
            self._tell(manifest, target, str(error))
            return None
        if patch and not await self._is_deleted(proxy, chaperon, changed):
            await self._write(target, placed, patch, manifest)
        return None

    async def _is_deleted(self, proxy: Object, chaperon: Raw, changed: Raw) -> bool:
        """Return True if Services would route to a withdrawn delegate again although its proxy pod has been deleted.

        Only a store of this process that is older than the chaperon has such a proxy pod: a former leader withdrew the
        delegate. An earlier version also withdrew delegates of pods that stay.
        """
        if not (deletion.is_withdrawn(chaperon) and changed.get("labels", {}).get(names.LABEL_SERVING)):
            return False
        found = await self._deps.live_reads.proxy(proxy.key)
        return found is None or found.deleting or found.uid != proxy.uid

    async def _label_candidates(self, proxy: Object) -> None:
        """Label chaperons of an earlier version of a pod that is not bound: its delegate may start at any moment."""
        for placed in self._deps.chaperons.of(proxy.key):
            target = placed.target
            if placed.chaperon.deleting or not placed.is_of(proxy) or not target.ready or not _understands(target):
                continue
            manifest, chaperon = proxy.decode(), placed.chaperon.decode()
            known = told(chaperon)
            if lacking := new_labels(manifest, known, chaperon, self._deps.cluster_uid):
                await self._write(target, placed, chaperon_patch(known, chaperon, lacking), manifest)

    def _placed(self, proxy: Object, target: Target | None) -> Placed | None:
        for placed in self._deps.chaperons.of(proxy.key):
            if placed.target is target and placed.is_of(proxy):
                return None if placed.chaperon.deleting else placed
        return None

    async def _write(self, target: Target, placed: Placed, patch: Raw, proxy: Raw) -> None:
        """Change the very chaperon that was read: feedback may have withdrawn the delegate from Services since."""
        namespace, name = placed.chaperon.key
        patch["metadata"]["resourceVersion"] = placed.chaperon.version
        try:
            target.chaperons.absorb(await target.port.patch_raw(CHAPERONS, name, patch, namespace))
        except NotFound:
            return
        except (Forbidden, Invalid) as error:
            # Tried again when anything changes.
            self._tell(proxy, target, error.message)
        except Unreachable:
            target.probe_now()
            raise

    def _tell(self, proxy: Raw, target: Target, reason: str) -> None:
        message = f"{target.title}: what was changed does not reach the delegate: {reason}"
        self._deps.recorder.event(proxy, "Warning", "FailedUpdate", message)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        """Most events of a bound pod are about its status and are ignored."""
        if new is not None and new.node_name and not new.deleting and (old is None or _may_matter(old, new)):
            self.queue.add(new.key)

    def _watch_version(self, target: Target) -> None:
        target.summaries.subscribe(lambda old, new: self._target_changed(target))

    def _target_changed(self, target: Target) -> None:
        now = target.ready and _understands(target)
        known, self._known[target] = self._known.get(target, False), now
        if now and not known:
            for parent in self._deps.chaperons.parents(target):
                if self._proxies.store.get(parent) is not None:
                    self.queue.add(parent)


def _may_matter(old: Object, new: Object) -> bool:
    generation = new.head.metadata.generation
    return (
        not old.node_name
        # Pods of API servers before 1.33 have no generation.
        or not generation
        or generation != old.head.metadata.generation
        or old.labels != new.labels
        or old.annotations != new.annotations
        # Conditions for them are part of the status. Few pods have gates.
        or _READINESS_GATES in new.raw
    )


def _understands(target: Target) -> bool:
    summary = target.summaries.store.get(("", names.SUMMARY_NAME))
    return summary is not None and _AGENT_VERSION in summary.raw
