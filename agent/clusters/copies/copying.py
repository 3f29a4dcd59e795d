"""Copies of a local object in every target that should have one: base of all controllers that copy objects.

Labels of a copy identify its original, so originals need no finalizers. A copy is deleted when its original is deleted
or no longer shared, or later when its target or this agent returns. A foreign object of the same name is never touched,
and is reported on the original. Changed copies are corrected, at growing intervals. In a namespace that is not enabled
no copies are created unless a target still has pods of it; existing ones are kept correct.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from agent.api import names
from agent.api.kinds import TARGET_KINDS, Kind
from agent.clusters.copies.admiralty_finalizers import AdmiraltyFinalizers
from agent.clusters.copies.copier import Copier, Place
from agent.clusters.copies.copy_failures import BlockedCopies
from agent.clusters.copies.refusals import Blocked, not_copied
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object, metadata_only
from agent.model import podstate
from agent.model.namespaces import not_enabled
from agent.model.sharedcopies import MERGED
from agent.runtime.controller import Controller

Raw = dict[str, Any]
Item = tuple[str, str, str]
"""Virtual node of the target, namespace and name. Without node: the original itself."""

BLOCKED = "SharingBlocked"
"""Reason of the Warning event on an original whose copy is missing."""
UNSHARED_SECONDS = 3.0
"""Seconds for which a copy stays after sharing ended: a user who replaces an original drops the annotations."""
_UNSYNCED_SECONDS = 2.0


class CopyController(Controller[Item]):
    """Reconciles one original in one target at a time."""

    workers = 64
    kind: ClassVar[Kind]
    label: ClassVar[str] = names.LABEL_PARENT_CLUSTER_UID
    """Label of every copy: the UID of this cluster."""
    slim: ClassVar[bool] = False
    """Whether only the metadata of copies is cached."""
    borrowed: ClassVar[float | None] = None
    """Seconds between checks whether a foreign object that serves as well still exists."""

    def __init__(self, deps: Deps, originals: Informer) -> None:
        super().__init__()
        self.deps = deps
        self.originals = originals
        self._copies: dict[str, Informer] = {}
        self._copier = Copier[Item](deps, MERGED, label=self.label, serves=self.serves)
        self._blocked = BlockedCopies[Item](deps.recorder, BLOCKED)
        self._unshared: dict[Item, float] = {}
        self._targets = deps.local.either(TARGET_KINDS)
        self._held = AdmiraltyFinalizers(deps.local.client, originals, self._targets)
        self.watch(originals, self._items)
        self.watch(deps.namespaces.informer, lambda namespace: ())
        deps.namespaces.on_turn(self._turned)
        for informer in self._targets.informers:
            self.watch(informer, lambda target: self._left(names.virtual_node(*target.key)) if target.deleting else ())
        deps.prerequisites.add(self)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)

    @abstractmethod
    def shared(self, original: Object) -> bool:
        """Return whether an original must be copied; called for every original at every change."""

    @abstractmethod
    def wanted(self, original: Raw) -> Raw:
        """Return the copy. Raises ValueError with a remedy for the user."""

    def wanted_there(self, target: Target, original: Raw, copy: Object | None) -> Raw:
        """Return the copy that a target should have; `copy` is its present one, None if it has none."""
        return self.wanted(original)

    def seen_from(self, node: str, original: Raw) -> Raw:
        """Return the original as a target should have it, for originals that differ by target."""
        return original

    async def content(self, original: Object) -> Raw | None:
        """Return the whole original, None if it has been deleted."""
        return original.decode()

    def wanted_in(self, original: Object, node: str) -> bool:
        """Return whether the controller wants a copy of a shared original in a target."""
        return True

    def serves(self, found: Raw) -> bool:
        """Return whether a foreign object of that name serves as well."""
        return False

    def remedy(self, problem: str) -> str:
        """Return the remedy for a problem that is reported to a user."""
        return ""

    def problems(self, key: Key) -> dict[str, str]:
        """Return the obstacles of an original's copies by virtual node."""
        return {node: message for node in self._copies if (message := self._blocked.message((node, *key)))}

    def is_everywhere(self, original: Object) -> bool:
        """Return whether every target that should have a copy is known to have it, connected or not."""
        objects = self._targets.serving(original.namespace)
        nodes = {names.virtual_node(*obj.key) for obj in objects if not obj.deleting}
        connected = self.deps.targets.serving(original.namespace)
        nodes |= {target.node_name for target in connected}
        nodes -= {target.node_name for target in connected if target.is_self}
        return all((node, *original.key) in self._copier.agreed for node in nodes if self.wanted_in(original, node))

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Do nothing: no pod waits for these copies."""

    def places(self, proxy: Object) -> Mapping[str, str]:
        """Return nothing: these copies bind no pod to a target."""
        return {}

    def left_in(self, target: Target) -> bool:
        """Return whether a retiring target still has copies that no other Target needs."""
        informer = self._copies.get(target.node_name)
        return informer is not None and any(not self._kept_by_another(copy, target) for copy in informer.store)

    def lane(self, item: Item) -> str:
        """Use one lane per target, so that an unresponsive one delays no other."""
        return item[0]

    async def reconcile(self, item: Item) -> float | None:
        """Reconcile one copy."""
        node, namespace, name = item
        original = self.originals.store.get((namespace, name))
        if not node:
            await self._held.release(original)
            return None
        target, informer = self.deps.targets.by_node(node), self._copies.get(node)
        if target is None or informer is None or not target.ready:
            return None
        if not informer.synced.is_set():
            return self._unreadable(item, original, target, informer)
        place = Place(item, self.kind, (namespace, name), target, informer)
        if original is None or not self._belongs(original, target):
            copy = informer.store.get((namespace, name))
            if copy and original is not None and (wait := self._stays_for(item, original, target)) > 0:
                return wait
            if copy and self._kept_by_another(copy, target):
                return None
            if copy and original is None and (wait := self.deps.orphan_deletion_guard.wait(target)) > 0:
                return wait
            await self._remove(place, original, copy)
            return None
        self._unshared.pop(item, None)
        return await self._bring(place, original, informer.store.get((namespace, name)))

    def _stays_for(self, item: Item, original: Object, target: Target) -> float:
        """Return the seconds until the copy of an unshared original is deleted: it may soon be shared again."""
        if original.deleting or self._is_leaving(target):
            return 0.0
        now = asyncio.get_running_loop().time()
        return self._unshared.setdefault(item, now) + UNSHARED_SECONDS - now

    def _belongs(self, original: Object, target: Target) -> bool:
        return (
            not original.deleting
            and target.serves(original.namespace)
            and not self._is_leaving(target)
            and self.shared(original)
            and self.wanted_in(original, target.node_name)
        )

    async def _bring(self, place: Place[Item], original: Object, copy: Object | None) -> float | None:
        item = place.item
        if copy is not None and self._copier.is_agreed(item, original, copy):
            return None
        try:
            if copy is None and not self.deps.namespaces.is_in_use(original.namespace):
                raise place.not_copied(not_enabled(original.namespace))
            if (content := await self.content(original)) is None:
                return None
            if (wait := await self._write(place, content, copy)) > 0:
                return wait
        except (Blocked, ValueError) as problem:
            return self._tell(item, original, str(problem))
        self._blocked.gone(item)
        return None if self._copier.agreed[item][1] else self.borrowed

    async def _write(self, place: Place[Item], original: Raw, copy: Object | None) -> float:
        wanted = self.wanted_there(place.target, self.seen_from(place.item[0], original), copy)
        if copy is None:
            await self._copier.put(place, original, wanted)
            return 0.0
        now = asyncio.get_running_loop().time()
        if self.slim:
            return await self._copier.match(place, original, wanted, now)
        return await self._copier.correct(place, original, copy, wanted, now)

    async def _remove(self, place: Place[Item], original: Object | None, copy: Object | None) -> None:
        """Delete an unneeded copy: of an unshared original, or of one that the API server confirms as deleted."""
        item, target = place.item, place.target
        self._copier.forget(item)
        self._unshared.pop(item, None)
        for node in (item[0],) if original is not None else self._copies:
            self._blocked.gone((node, *item[1:]))
        if copy is not None and (original is not None or await self._is_gone(item)):
            await self._copier.delete(place, copy.uid)
        if original is not None:
            await self._held.withdraw(original, target, copied=copy is not None)

    async def _is_gone(self, item: Item) -> bool:
        """Return whether the API server confirms that the original has been deleted."""
        try:
            await self.deps.local.client.get_raw(self.kind, item[2], item[1])
        except NotFound:
            return True
        return False

    def _unreadable(self, item: Item, original: Object | None, target: Target, informer: Informer) -> float | None:
        if informer.error is not None and original is not None and self._belongs(original, target):
            title = f"{self.kind.name} {original.namespace}/{original.name}"
            return self._tell(item, original, not_copied(title, target, str(informer.error)))
        return _UNSYNCED_SECONDS

    def _tell(self, item: Item, original: Object, message: str) -> float:
        wait = self._blocked.found(item, message + self.remedy(message), asyncio.get_running_loop().time())
        self._blocked.tell(item, (original,))
        return wait

    def _kept_by_another(self, copy: Object, target: Target) -> bool:
        """Return whether another Target of the same cluster, recognized by the UID, needs the copy."""
        original = self.originals.store.get(copy.key)
        if original is None:
            return False
        for other in self.deps.targets.serving(copy.namespace):
            informer = self._copies.get(other.node_name)
            same = informer.store.get(copy.key) if informer is not None and other is not target else None
            if same is not None and same.uid == copy.uid and self._belongs(original, other):
                return True
        return False

    def _is_leaving(self, target: Target) -> bool:
        obj = self._targets.get(target.key)
        return obj is not None and obj.deleting

    def again_in(self, node: str, namespace: str = "") -> None:
        """Check copies in one or (empty) all namespaces of a target again, although nothing about them has changed."""
        shared = ((node, *each.key) for each in self.originals.store if self.shared(each))
        for item in {*self._left(node), *shared}:
            if namespace in ("", item[1]):
                self._copier.reopen(item)
                self.queue.add(item)

    def _items(self, original: Object) -> Iterable[Item]:
        held = original.deleting and podstate.is_held(original.finalizers)
        if held:
            yield ("", *original.key)
        wanted = original.deleting or self.shared(original)
        serving = {each.node_name for each in self.deps.targets.serving(original.namespace)} if wanted else ()
        for node, copies in self._copies.items():
            item = (node, *original.key)
            if held or node in serving or copies.store.get(original.key) or self._blocked.message(item):
                yield item

    def _turned(self, namespace: str) -> None:
        for each in self.originals.store:
            for item in self._items(each) if each.namespace == namespace else ():
                self.queue.add(item)

    def _left(self, node: str) -> list[Item]:
        informer = self._copies.get(node)
        return [(node, *copy.key) for copy in informer.store] if informer is not None else []

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        node, mine = target.node_name, f"{self.label}={self.deps.cluster_uid}"
        informer = target.informer(self.kind, labels=mine, reduce=metadata_only if self.slim else None)
        self._copies[node] = informer
        self.watch(informer, lambda copy: ((node, *copy.key),), required=False)
        informer.subscribe(lambda old, new: self.deps.prerequisites.taken(target) if new is None else None)

    def _target_changed(self, target: Target) -> None:
        node = target.node_name
        if target.ready and node in self._copies:
            served = (each for each in self.originals.store if target.serves(each.namespace) and self.shared(each))
            for item in (*self._left(node), *((node, *each.key) for each in served)):
                self.queue.add(item)

    def _detached(self, target: Target) -> None:
        node = target.node_name
        self._copies.pop(node, None)
        self._copier.forget_all(lambda item: item[0] == node)
        self._unshared = {item: since for item, since in self._unshared.items() if item[0] != node}
        for item in [item for item in self._blocked.items() if item[0] == node]:
            self._blocked.gone(item)
            self.queue.add(("", *item[1:]))
