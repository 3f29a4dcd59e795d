"""Chaperons of this cluster in all targets, indexed by proxy pod."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.api.names import givingup
from agent.base.listeners import tell
from agent.clusters.registry import Targets
from agent.clusters.stores.deleted_chaperons import DeletedChaperons, Departure
from agent.clusters.target import Target, parent_of
from agent.kube.errors import Conflict, Gone, NotFound, Unreachable
from agent.kube.store import Key, Object

Propagation = Literal["Foreground", "Background"]
_GIVEN_UP = {givingup.ANNOTATION_GIVE_UP, names.ANNOTATION_POD_MISSING_SINCE}
"""Annotations of a chaperon whose delegate the target's agent has deleted."""


async def delete(target: Target, chaperon: Mapping[str, Any], *, as_it_was: bool = False) -> None:
    """Delete the chaperon with this UID, after its delegate (ruling 5); do nothing if it has been deleted.

    `as_it_was`: also do nothing if it has changed, for callers that judged its content. If the target's agent has
    deleted the delegate, the garbage collector is not awaited. Raises KubeError; if the target did not answer, it is
    probed at once.
    """
    metadata = chaperon["metadata"]
    key, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
    version = metadata["resourceVersion"] if as_it_was else None
    given_up = _GIVEN_UP.issubset(metadata.get("annotations") or {})
    propagation: Propagation = "Background" if given_up else "Foreground"
    raw = await request_delete(target, key, uid, version=version, propagation=propagation)
    # Until the watch shows it, it would be deleted again at every change.
    if raw:
        target.chaperons.absorb(raw)


async def request_delete(
    target: Target,
    chaperon: Key,
    uid: str,
    *,
    version: str | None = None,
    propagation: Propagation = "Foreground",
) -> bytes | None:
    """Delete likewise, but return the raw chaperon that waits for its delegate: empty if deleted now, None if it was
    deleted or had changed before."""
    namespace, name = chaperon
    port = target.port
    try:
        with target.chaperons.vanished.noticed(chaperon, uid):
            return await port.delete(CHAPERONS, name, namespace, uid=uid, version=version, propagation=propagation)
    except (NotFound, Conflict, Gone):
        return None
    except Unreachable:
        target.probe_now()
        raise


class Placed(NamedTuple):
    """A chaperon and its target."""

    target: Target
    chaperon: Object

    def is_of(self, pod: Object) -> bool:
        """Return whether it was created for this proxy pod, and not for an earlier one of the same name."""
        return self.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid


class Chaperons:
    """Index over the chaperon stores of all targets.

    A chaperon belongs to this cluster if it carries its UID. The index also holds chaperons without a UID, which
    Admiralty made. They count only if their parent-uid is that of a live pod (ruling 4), and are never orphans.
    """

    def __init__(self, targets: Targets, cluster_uid: str) -> None:
        self._cluster_uid = cluster_uid
        self._by_parent: dict[Key, dict[tuple[Key, Key], Placed]] = {}
        self._by_target: dict[Key, dict[Key, Key]] = {}
        """Parent of each chaperon, by target and chaperon."""
        self._in: Counter[str] = Counter()
        """Number of chaperons that this cluster itself has created, by namespace."""
        self._departures = DeletedChaperons()
        self._subscribers: list[Callable[[Key], None]] = []
        self._stops: dict[Key, Callable[[], None]] = {}
        targets.on_attach(self._attached)
        targets.on_detach(self._detached)

    def of(self, parent: Key) -> list[Placed]:
        """Return the chaperons of the proxy pod with this namespace and name, whatever its UID."""
        return list(self._by_parent.get(parent, {}).values())

    def any_of(self, parent: Key) -> bool:
        """Return whether the proxy pod with this namespace and name has a chaperon."""
        return parent in self._by_parent

    def departed(self, target: Target, uid: str) -> Departure | None:
        """Return the departure of a proxy pod's last chaperon in a target if reported recently; else None."""
        return self._departures.get((target.key, uid))

    def expect(self, target: Target, uid: str) -> None:
        """Discard reports about an earlier chaperon, since a new one of this proxy pod is about to be created."""
        self._departures.discard((target.key, uid))

    def any_in(self, namespace: str) -> bool:
        """Return whether a pod of a namespace has a chaperon with this cluster's UID."""
        return self._in[namespace] > 0

    def subscribe(self, subscriber: Callable[[Key], None]) -> None:
        """Register a subscriber: called with the parent's key whenever one of its chaperons changes."""
        self._subscribers.append(subscriber)

    def parents(self, target: Target) -> list[Key]:
        """Return the proxy pods that have a chaperon in a target."""
        return list(dict.fromkeys(self._by_target.get(target.key, {}).values()))

    def is_ours(self, chaperon: Object) -> bool:
        """Return whether this cluster may have created a chaperon: one without a UID belongs to the pod of its
        parent-uid."""
        owner = chaperon.labels.get(names.LABEL_PARENT_CLUSTER_UID)
        return not owner or owner == self._cluster_uid

    def made_here(self, target: Target) -> list[Key]:
        """Return the proxy pods with a chaperon in a target that this cluster has created, recognized by its UID."""
        found = (
            parent
            for chaperon, parent in self._by_target.get(target.key, {}).items()
            if self._was_made_here(self._by_parent[parent][target.key, chaperon].chaperon)
        )
        return list(dict.fromkeys(found))

    def _attached(self, target: Target) -> None:
        def changed(old: Object | None, new: Object | None) -> None:
            after = new if new is not None and self.is_ours(new) else None
            if old is not None and self.is_ours(old) and (after is None or parent_of(after) != parent_of(old)):
                if new is None:
                    way = (target.key, old.labels.get(names.LABEL_PARENT_UID, ""))
                    self._departures.add(way, Departure.of(old))
                self._note(target, old, False)
            if after is not None:
                self._note(target, after, True)

        self._stops[target.key] = target.chaperons.subscribe(changed)

    def _note(self, target: Target, chaperon: Object, present: bool) -> None:
        namespace, _, name = parent_of(chaperon)[0].partition("/")
        parent = (namespace, name)
        entry = (target.key, chaperon.key)
        if present:
            placed = self._by_parent.setdefault(parent, {})
            self._count(namespace, placed.get(entry), -1)
            placed[entry] = Placed(target, chaperon)
            self._by_target.setdefault(target.key, {})[chaperon.key] = parent
            self._count(namespace, placed[entry], 1)
        else:
            self._drop(parent, entry)
        tell(self._subscribers, parent)

    def _detached(self, target: Target) -> None:
        # The informer of a self target belongs to the local cluster and keeps running.
        stop = self._stops.pop(target.key, None)
        if stop is not None:
            stop()
        self._departures.forget(target.key)
        for chaperon, parent in list(self._by_target.get(target.key, {}).items()):
            self._drop(parent, (target.key, chaperon))

    def _drop(self, parent: Key, entry: tuple[Key, Key]) -> None:
        placed, beside = self._by_parent.get(parent, {}), self._by_target.get(entry[0], {})
        self._count(parent[0], placed.pop(entry, None), -1)
        if beside.pop(entry[1], None) is not None and not beside:
            del self._by_target[entry[0]]
        if not placed:
            self._by_parent.pop(parent, None)

    def _count(self, namespace: str, placed: Placed | None, by: int) -> None:
        if placed is not None and self._was_made_here(placed.chaperon):
            self._in[namespace] += by
            if not self._in[namespace]:
                del self._in[namespace]

    def _was_made_here(self, chaperon: Object) -> bool:
        return chaperon.labels.get(names.LABEL_PARENT_CLUSTER_UID) == self._cluster_uid
