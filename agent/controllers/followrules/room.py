"""What rooms share whose originals are copied only where a namespace, or a pod that they concern, asks for it.

As long as nobody does, targets are neither watched nor asked for more than one list each: their sources need a right
for that which they do not have by default.
"""

import math
import time
from collections.abc import Iterable
from typing import ClassVar

from agent.api import names
from agent.api.roles import SOURCE_RULES_ROLE
from agent.clusters.copying import CopyRoom, Item
from agent.clusters.deps import Deps
from agent.clusters.namespaces import turns
from agent.clusters.target import Target
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key, Object
from agent.model.service import is_copy

_REFUSED_SECONDS = 60.0
"""For so long it counts that a target does not let us look."""


class OptInRoom(CopyRoom):
    """Keys are a target's virtual node, namespace and name; without name: whether a target has copies."""

    asked_by: ClassVar[str]
    """Suffix of the annotation of namespaces and pods."""

    def __init__(self, deps: Deps) -> None:
        self._active = False
        self._dormant: dict[str, Target] = {}
        """Targets that are not watched, by virtual node."""
        self._looked: dict[str, float] = {}
        """Until when they have not to be looked at again, by virtual node, as long as they are ready."""
        self._namespaces: set[str] = set()
        mark, suffix = self.asked_by.encode(), self.asked_by
        self._proxies = deps.proxies.informer
        self._proxies.store.index(
            suffix,
            lambda pod: (
                (pod.namespace,)
                if mark in pod.raw and names.annotation(pod.annotations, suffix) == "true" and not pod.deleting
                else ()
            ),
        )
        super().__init__(deps, deps.local.informer(self.kind))
        self.originals.store.index("namespace", lambda obj: (obj.namespace,))
        self.watch(self._proxies, lambda pod: ())
        self._proxies.subscribe(self._pod_changed)
        deps.namespaces.informer.subscribe(self._namespace_changed)
        deps.chaperons.subscribe(self._chaperon_changed)

    def concerns(self, original: Object, pod: Object) -> bool:
        """Whether an original is to go where a pod goes that asks for it."""
        raise NotImplementedError

    def shared(self, original: Object) -> bool:
        """Whether its namespace asks for it, or a pod that it concerns. Copies and what we made go nowhere.

        In a namespace that is not enabled any more, as long as pods of it are in a target.
        """
        if not self.deps.namespaces.is_in_use(original.namespace):
            return False
        if is_copy(original.annotations) or names.LABEL_SOURCE in original.labels:
            return False
        if original.namespace in self._namespaces:
            return True
        return any(self.concerns(original, pod) for pod in self.asking(original.namespace))

    def asking(self, namespace: str) -> list[Object]:
        """Pods of a namespace that ask for themselves."""
        return self._proxies.store.by_index(self.asked_by, namespace)

    def remedy(self, problem: str) -> str:
        """Where a verb is missing: the role that has it."""
        if "is forbidden" not in problem:
            return ""
        return f"; let the target's administrator bind ClusterRole {SOURCE_RULES_ROLE} to this cluster's account there"

    async def reconcile(self, item: Item) -> float | None:
        """Bring one copy in line, or find out whether there are any in a target."""
        if item[0] and not item[2]:
            await self._look(item[0])
            return None
        return await super().reconcile(item)

    def again(self, namespace: str) -> None:
        """Look at all originals of a namespace."""
        for original in self.originals.store.by_index("namespace", namespace):
            for item in self._items(original):
                self.queue.add(item)

    async def _look(self, node: str) -> None:
        """Copies may be left of a time when somebody asked for them."""
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
        if not self._active and self.shared(original):
            self._activate()
        return super()._items(original)

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
        if _substance(old, self.asked_by) != _substance(new, self.asked_by):
            pod = new or old
            assert pod is not None
            self.again(pod.namespace)

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
        if not self.deps.namespaces.is_enabled(pod[0]) and (pod[0] in self._namespaces or self.asking(pod[0])):
            self.again(pod[0])


def _substance(pod: Object | None, asked_by: str) -> object:
    """What of a pod decides which originals concern it; nothing for one that asks for none."""
    if pod is None or asked_by.encode() not in pod.raw or pod.deleting:
        return None
    return (pod.uid, names.annotation(pod.annotations, asked_by), pod.labels)
