"""Base of controllers whose originals are copied only if a namespace, or a pod that they concern, asks for it.

Without such a request targets are not watched, and read with at most one list each: sources lack the right to watch by
default.

Events of pods and originals are only recorded. One key per namespace then counts, in time slices, which originals
select an asking pod, and enqueues the copies of originals whose result has changed.
"""

import logging
import math
import time
from collections.abc import Iterable
from typing import ClassVar

from agent.api import names
from agent.api.roles import SOURCE_RULES_ROLE
from agent.base.yielding import take_turn
from agent.clusters.copies.copying import CopyController, Item
from agent.clusters.deps import Deps
from agent.clusters.stores.namespaces import turns
from agent.clusters.target import Target
from agent.dependencies.rules.selections import Selections
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key, Object
from agent.model.service import is_copy
from agent.ranking.pod_terms import Labels, Selector

log = logging.getLogger(__name__)

_REFUSED_SECONDS = 60.0
"""Seconds for which a target counts as one that does not permit lists."""


class OptInController(CopyController):
    """Base controller. Its keys are a target's virtual node, namespace and name.

    A key without name asks whether a target has copies; a key with only a namespace, which of its originals are
    shared.
    """

    asked_by: ClassVar[str]
    """Suffix of the annotation of namespaces and pods."""

    def __init__(self, deps: Deps) -> None:
        self._active = False
        self._dormant: dict[str, Target] = {}
        """Targets that are not watched, by virtual node."""
        self._looked: dict[str, float] = {}
        """Time of the next check by virtual node, as long as the target is ready."""
        self._namespaces: set[str] = set()
        self._known: dict[str, Selections] = {}
        """Selections by namespace."""
        self._again: set[str] = set()
        """Namespaces all of whose originals are to be checked again."""
        self._proxies = deps.proxies.informer
        super().__init__(deps, deps.local.informer(self.kind))
        self.originals.store.index("namespace", lambda obj: (obj.namespace,))
        self.watch(self._proxies, lambda pod: ())
        self._proxies.subscribe(self._pod_changed)
        deps.namespaces.informer.subscribe(self._namespace_changed)
        deps.chaperons.subscribe(self._chaperon_changed)

    def selector(self, original: Object) -> Selector | None:
        """Return the selector for labels of pods that an original concerns; None if the original must not be copied."""
        raise NotImplementedError

    def labels(self, pod: Object) -> Labels:
        """Return the labels of a pod that decide which originals concern it."""
        return pod.labels

    def shared(self, original: Object) -> bool:
        """Return whether the original's namespace, or a pod that it concerns, requests copies.

        Copies and generated objects are never shared. In a namespace that is no longer enabled, originals stay
        shared as long as targets have pods of it.
        """
        known = self._known.get(original.namespace)
        if known is None or not known.may_go(original.name):
            return False
        if original.namespace not in self._namespaces and not known.selects(original.name):
            return False
        return self.deps.namespaces.is_in_use(original.namespace)

    def remedy(self, problem: str) -> str:
        """Return the remedy for a missing verb: the role that contains it."""
        if "is forbidden" not in problem:
            return ""
        return f"; let the target's administrator bind ClusterRole {SOURCE_RULES_ROLE} to this cluster's account there"

    def lane(self, item: Item) -> str:
        """Return the virtual node, or the namespace of a key without one: a large namespace delays no other."""
        return item[0] or f"/{item[1]}"

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one copy, check whether a target has any, or which originals are shared."""
        node, namespace, name = item
        if not name:
            await (self._look(node) if node else self._settle(namespace))
            return None
        original = self.originals.store.get((namespace, name))
        if original is not None and not self._selections(namespace).is_current(original):
            # The namespace's key is queued and, once reconciled, enqueues this one.
            return None
        return await super().reconcile(item)

    def again(self, namespace: str) -> None:
        """Check all originals of a namespace again."""
        self._again.add(namespace)
        self.queue.add(("", namespace, ""))

    async def _settle(self, namespace: str) -> None:
        """Count the changes of a namespace, then enqueue the copies of originals whose answer has changed."""
        known, originals = self._selections(namespace), self.originals.store
        try:
            for _ in known.update():
                await take_turn()
        except BaseException:
            for each in originals.by_index("namespace", namespace):
                known.original(each.name, each)
            raise
        names_changed = known.changed()
        if namespace in self._again:
            self._again.discard(namespace)
            # Deleted originals are no longer in the store; `names_changed` contains their names.
            present = (each.name for each in originals.by_index("namespace", namespace))
            names_changed = list(dict.fromkeys((*names_changed, *present)))
        for name in names_changed:
            for item in self._copies_of(namespace, name):
                self.queue.add(item)
            await take_turn()
        if known.empty:
            self._known.pop(namespace, None)

    def _copies_of(self, namespace: str, name: str) -> Iterable[Item]:
        original = self.originals.store.get((namespace, name))
        if original is None:
            return [(node, namespace, name) for node in self._copies]
        if not self._active and self.shared(original):
            self._activate()
        return super()._items(original)

    def _selections(self, namespace: str) -> Selections:
        return self._known.setdefault(namespace, Selections(self._compiled))

    def _compiled(self, original: Object) -> Selector | None:
        if is_copy(original.annotations) or names.LABEL_SOURCE in original.labels:
            return None
        try:
            return self.selector(original)
        except Exception:
            log.exception("%s %s/%s cannot be read and is not copied", original.kind.name, *original.key)
            return None

    async def _look(self, node: str) -> None:
        """Check for copies from a time when a pod or namespace requested them."""
        target = self._unwatched(node)
        if target is None or not self._is_due(node):
            return
        labels, looked = f"{self.label}={self.deps.cluster_uid}", math.inf
        try:
            _, found = await target.port.list_raw(self.kind, target.namespace or None, labels=labels)
            if found:
                self._activate()
        except (Forbidden, NotFound):
            looked = time.monotonic() + _REFUSED_SECONDS
        if self._unwatched(node) is target:
            self._looked[node] = looked

    def _unwatched(self, node: str) -> Target | None:
        target = self._dormant.get(node)
        return target if target is not None and target.ready else None

    def _is_due(self, node: str) -> bool:
        return time.monotonic() >= self._looked.get(node, -math.inf)

    def _items(self, original: Object) -> Iterable[Item]:
        """Record a change; the key of the namespace enqueues the copies."""
        self._selections(original.namespace).original(original.name, self.originals.store.get(original.key))
        return [("", original.namespace, "")]

    def _activate(self) -> None:
        self._active = True
        dormant, self._dormant = self._dormant, {}
        for target in dormant.values():
            self._attached(target)
            self._target_changed(target)

    def _attached(self, target: Target) -> None:
        if self._active:
            super()._attached(target)
        elif not target.is_self:
            self._dormant[target.node_name] = target

    def _detached(self, target: Target) -> None:
        self._dormant.pop(target.node_name, None)
        self._looked.pop(target.node_name, None)
        super()._detached(target)

    def _target_changed(self, target: Target) -> None:
        super()._target_changed(target)
        if not target.ready:
            self._looked.pop(target.node_name, None)
        elif target.node_name in self._dormant and self._is_due(target.node_name):
            self.queue.add((target.node_name, "", ""))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        asks = (
            new is not None
            and self.asked_by.encode() in new.raw
            and not new.deleting
            and names.annotation(new.annotations, self.asked_by) == "true"
        )
        if not asks and pod.namespace not in self._known:
            return
        if self._selections(pod.namespace).pod(pod.name, self.labels(pod) if asks else None):
            self.queue.add(("", pod.namespace, ""))

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        assert namespace is not None
        wanted = new is not None and names.annotation(new.annotations, self.asked_by) == "true"
        asks = wanted != (namespace.name in self._namespaces)
        if asks:
            self._namespaces ^= {namespace.name}
        if asks or turns(old, new):
            self.again(namespace.name)

    def _chaperon_changed(self, pod: Key) -> None:
        namespace = pod[0]
        asks = namespace in self._namespaces or (namespace in self._known and self._known[namespace].asked)
        if asks and not self.deps.namespaces.is_enabled(namespace):
            self.again(namespace)
