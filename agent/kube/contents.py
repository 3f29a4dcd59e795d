"""Contents of an informer: its store, updated from lists, watches and answers to writes."""

import contextlib
from collections.abc import Callable, Iterator

from agent.api.kinds import Kind
from agent.base.recent import Recent
from agent.kube.budget import Budget
from agent.kube.client import Client
from agent.kube.compression import Packer
from agent.kube.errors import NotFound
from agent.kube.flaws import Flaws
from agent.kube.reading import Told
from agent.kube.rollback import Progress, number
from agent.kube.store import Key, Object, Store
from agent.kube.subscribers import Subscribers

_LIMIT = 1000


class Vanished:
    """UIDs of deleted objects whose deletion the watch has not reported yet; `drop` removes them from the store."""

    def __init__(self, store: Store, drop: Callable[[Object], None]) -> None:
        self._store = store
        self._drop = drop
        self._uids = Recent(_LIMIT)

    def __contains__(self, obj: Object) -> bool:
        """Return whether an event about an object is outdated."""
        return obj.uid in self._uids

    @contextlib.contextmanager
    def noticed(self, key: Key, uid: str) -> Iterator[None]:
        """Context of a request about an object: if the API server answers NotFound, remove the object from the store.

        Otherwise controllers would delete it again at every change until the watch reports the deletion, which may take
        long. A NotFound about something else, such as a kind that is not served, is ignored. The NotFound is raised in
        any case.
        """
        try:
            yield
        except NotFound as error:
            known = self._store.get(key)
            if error.about == key[1] and known is not None and known.uid == uid:
                self._uids.add(uid)
                self._drop(known)
            raise

    def forget(self) -> None:
        """Forget all UIDs: objects that are listed from now on exist, since a backup may have been restored."""
        self._uids = Recent(_LIMIT)


class Contents:
    """Objects of one kind, within a budget; subscribers are notified of changes."""

    def __init__(self, client: Client, kind: Kind, budget: Budget, progress: Progress) -> None:
        self.flaws = Flaws(client, kind)
        self.store = Store(self.flaws.failed)
        self.subscribers = Subscribers(self.store, self.flaws.failed)
        self.vanished = Vanished(self.store, self._drop)
        self._budget = budget
        self._progress = progress
        self._packer = Packer(self.store)

    def take(self, told: Told, replaced: int) -> None:
        """Apply an event or a list item; an object cached with a later version than `replaced` stays."""
        if told.key is None:
            return
        if told.deleted:
            self.remove(told.key, replaced)
        elif told.obj is not None:
            self.put(told.obj, replaced)
        else:
            self.flaws.found(told.key, told.flaw)

    def put(self, obj: Object, replaced: int) -> None:
        """Store an object, unless a later version than `replaced` is cached."""
        if obj in self.vanished:
            return
        old = self.store.get(obj.key)
        if old is not None and (number(old.version) > replaced or self._is_same(old, obj)):
            return
        if old is None and self._budget.full:
            self.flaws.found(obj.key, "there are more objects in its cluster than are kept")
            return
        self.store.put(obj)
        self._budget.used += obj.size - (old.size if old is not None else 0)
        self._packer.note(obj)
        if obj.flaw:
            self.flaws.found(obj.key, obj.flaw)
        elif self.flaws:
            self.flaws.gone(obj.key)
        self.subscribers.changed(old, obj)

    def remove(self, key: Key, replaced: int) -> None:
        """Remove an object that was deleted by version `replaced`; a later object stays."""
        old = self.store.get(key)
        if old is None:
            self.flaws.gone(key)
        elif number(old.version) <= replaced:
            self._drop(old)

    def _is_same(self, old: Object, new: Object) -> bool:
        """Compare versions; after a rollback also contents, because two histories may use the same version."""
        return old.version == new.version and (not self._progress.rolled_back or old.raw == new.raw)

    def _drop(self, old: Object) -> None:
        self.flaws.gone(old.key)
        self.store.remove(old.key)
        self._budget.used -= old.size
        self._packer.forget(old.key)
        self.subscribers.changed(old, None)
