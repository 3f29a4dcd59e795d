"""Our chaperons in all targets, found by the proxy pod they stand for."""

from collections.abc import Callable
from typing import NamedTuple

from agent.api import names
from agent.clusters.registry import Targets
from agent.clusters.target import Target, parent_of
from agent.kube.store import Key, Object


class Placed(NamedTuple):
    """A chaperon and where it is."""

    target: Target
    chaperon: Object


class Chaperons:
    """An index over the chaperon stores of all targets.

    A chaperon is ours when it carries our cluster's UID; one without a UID (made by an agent that knows only the
    name) when it carries our cluster's name: design.md, ruling 4.
    """

    def __init__(self, targets: Targets, cluster_name: str, cluster_uid: str) -> None:
        self._identity = (cluster_name, cluster_uid)
        self._by_parent: dict[Key, dict[tuple[Key, Key], Placed]] = {}
        self._subscribers: list[Callable[[Key], None]] = []
        targets.on_attach(self._attached)
        targets.on_detach(self._detached)

    def of(self, parent: Key) -> list[Placed]:
        """Chaperons of the proxy pod with this namespace and name, whatever its UID."""
        return list(self._by_parent.get(parent, {}).values())

    def subscribe(self, subscriber: Callable[[Key], None]) -> None:
        """Call with the parent's key whenever one of its chaperons changes."""
        self._subscribers.append(subscriber)

    def parents(self, target: Target) -> list[Key]:
        """Proxy pods that have a chaperon in a target."""
        return [parent for parent, placed in self._by_parent.items() if any(key[0] == target.key for key in placed)]

    def is_ours(self, chaperon: Object) -> bool:
        """Whether this cluster made a chaperon."""
        name, uid = self._identity
        labels = chaperon.labels
        owner = labels.get(names.LABEL_PARENT_CLUSTER_UID)
        return owner == uid if owner else labels.get(names.LABEL_PARENT_CLUSTER_NAME, "") == name

    def _attached(self, target: Target) -> None:
        def changed(old: Object | None, new: Object | None) -> None:
            for obj, present in ((old, False), (new, True)):
                if obj is not None and self.is_ours(obj):
                    self._note(target, obj, present)

        target.chaperons.subscribe(changed)

    def _note(self, target: Target, chaperon: Object, present: bool) -> None:
        namespace, _, name = parent_of(chaperon)[0].partition("/")
        parent = (namespace, name)
        entry = (target.key, chaperon.key)
        if present:
            self._by_parent.setdefault(parent, {})[entry] = Placed(target, chaperon)
        else:
            placed = self._by_parent.get(parent, {})
            placed.pop(entry, None)
            if not placed:
                self._by_parent.pop(parent, None)
        for subscriber in self._subscribers:
            subscriber(parent)

    def _detached(self, target: Target) -> None:
        for parent in self.parents(target):
            placed = self._by_parent[parent]
            for entry in [entry for entry in placed if entry[0] == target.key]:
                del placed[entry]
            if not placed:
                del self._by_parent[parent]
