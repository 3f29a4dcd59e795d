"""Creation, correction and deletion of a copy in a target: shared by every controller that copies objects."""

import contextlib
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import msgspec

from agent.api import names
from agent.api.kinds import Kind
from agent.base.backoff import Backoff
from agent.clusters.copies.refusals import HELD, NOT_OURS, Blocked, not_copied, reporting_refusals
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import copies
from agent.model.copies import Content

REVERT_SECONDS = (1.0, 300.0)
"""First and longest pause between two reverts of a copy whose original stays."""

Item = TypeVar("Item", bound=Hashable)


class Reverts(Generic[Item]):
    """Times at which a reverted copy may be corrected again, by item, in seconds of the event loop's clock."""

    def __init__(self) -> None:
        self._due: dict[Item, tuple[float, Backoff]] = {}

    def wait(self, item: Item, agreed: tuple[str, str] | None, original: str, now: float) -> float:
        """Return the seconds until a copy may be corrected: 0 for now, for example if its original has changed.

        :param agreed: versions of original and copy that matched
        :param original: current version of the original
        """
        if agreed is None or agreed[0] != original:
            self.forget(item)
            return 0.0
        due, backoff = self._due.get(item, (0.0, Backoff(*REVERT_SECONDS)))
        if now < due:
            return due - now
        if now > due + REVERT_SECONDS[1]:
            backoff.reset()
        self._due[item] = (now + backoff.next(), backoff)
        return 0.0

    def forget(self, item: Item) -> None:
        """Forget a copy that was deleted or replaced."""
        self._due.pop(item, None)


Raw = dict[str, Any]


class Vanished(Conflict):
    """The copy has been deleted since it was seen."""


class Place(msgspec.Struct, Generic[Item], frozen=True):
    """Place of a copy. `item` is the controller's key for it."""

    item: Item
    kind: Kind
    key: Key
    target: Target
    copies: Informer

    @property
    def title(self) -> str:
        """Return the object's name for users."""
        return f"{self.kind.name} {self.key[0]}/{self.key[1]}"

    def reporting_refusals(self) -> contextlib.AbstractContextManager[None]:
        """Translate refusals of requests to the target about this copy (`refusals.reporting_refusals`)."""
        return reporting_refusals(self.title, self.target, self.kind)

    def not_copied(self, reason: str) -> Blocked:
        """Return the error for an item that cannot be copied."""
        return Blocked(not_copied(self.title, self.target, reason))


class Copier(Generic[Item]):
    """Creates, updates and deletes copies. Methods raise Blocked, or KubeError if another try may help."""

    def __init__(
        self,
        deps: Deps,
        content: Content = copies.EXACT,
        *,
        label: str = names.LABEL_PARENT_CLUSTER_UID,
        serves: Callable[[Raw], bool] = lambda found: False,
    ) -> None:
        """:param content: returns the part of a copy that its original decides
        :param label: label of every copy with the UID of this cluster
        :param serves: returns whether a foreign object serves as well"""
        self._deps = deps
        self._content = content
        self._label = label
        self._serves = serves
        self._reverts: Reverts[Item] = Reverts()
        self.agreed: dict[Item, tuple[str, str]] = {}
        """Versions of original and copy that match. An empty copy version: a foreign object serves."""
        self._reopened: set[Item] = set()

    def is_agreed(self, item: Item, original: Object, copy: Object) -> bool:
        """Return True if a copy is known to match its original. The first call after `reopen` returns False."""
        if item in self._reopened:
            self._reopened.discard(item)
            self.agreed.pop(item, None)
        return self.agreed.get(item) == (original.version, copy.version)

    def reopen(self, item: Item) -> None:
        """Compare a copy again although neither version changes, even if it is being written now."""
        self._reopened.add(item)

    def forget(self, item: Item) -> None:
        """Forget a copy that was deleted."""
        self.agreed.pop(item, None)
        self._reopened.discard(item)
        self._reverts.forget(item)

    def forget_all(self, where: Callable[[Item], bool]) -> None:
        """Forget all items for which `where` is true."""
        for item in [item for item in self.agreed if where(item)]:
            self.forget(item)

    async def put(self, place: Place[Item], original: Raw, wanted: Raw) -> None:
        """Create the copy; an existing object becomes the copy if permitted."""
        try:
            with place.reporting_refusals():
                raw = await place.target.port.create_raw(place.kind, wanted)
        except AlreadyExists:
            await self.match(place, original, wanted)
        else:
            self.agree(place, original, raw)

    async def match(self, place: Place[Item], original: Raw, wanted: Raw, now: float | None = None) -> float:
        """Read the existing object and `correct` it. Raises Vanished if there is none."""
        namespace, name = place.key
        with place.reporting_refusals():
            try:
                raw = await place.target.port.get_raw(place.kind, name, namespace)
            except NotFound as error:
                raise Vanished(error.status, error.reason, error.message) from error
        found = Object(place.kind, raw)
        copy = found.decode()
        if copies.is_same_or_upstream(copy, original) or self._serves(copy):
            self.needs_none(place, original)
            return 0.0
        if not self._is_ours(copy, original):
            raise place.not_copied(NOT_OURS)
        if found.deleting:
            raise place.not_copied(HELD)
        return await self.correct(place, original, found, wanted, now)

    async def correct(
        self, place: Place[Item], original: Raw, found: Object, wanted: Raw, now: float | None = None
    ) -> float:
        """Correct a copy; return the seconds until that may be done, 0 if it is correct.

        Without `now`, in seconds of the event loop, differences are corrected at once.
        """
        copy = found.decode()
        replaced = self._content.must_be_replaced(copy, wanted)
        if not replaced and self._content.same(copy, wanted):
            self.agree(place, original, found.raw)
            return 0.0
        item, version = place.item, original["metadata"]["resourceVersion"]
        if now is not None and (wait := self._reverts.wait(item, self.agreed.get(item), version, now)) > 0:
            return wait
        with place.reporting_refusals():
            if replaced:
                await self._delete(place, found.uid)
                raw = await place.target.port.create_raw(place.kind, wanted)
            else:
                raw = await place.target.port.update_raw(place.kind, self._content.revised(copy, wanted))
        self.agree(place, original, raw)
        return 0.0

    async def delete(self, place: Place[Item], uid: str) -> None:
        """Delete the copy with this UID."""
        with place.reporting_refusals(), contextlib.suppress(NotFound, Conflict):
            await self._delete(place, uid)
        self.forget(place.item)

    def needs_none(self, place: Place[Item], original: Raw) -> None:
        """Record that a foreign object serves as well as a copy."""
        self.agreed[place.item] = (original["metadata"]["resourceVersion"], "")

    def agree(self, place: Place[Item], original: Raw, raw: bytes) -> None:
        """Record the result of a write as matching, including changes by the target's admission."""
        version = place.copies.absorb(raw).version
        self.agreed[place.item] = (original["metadata"]["resourceVersion"], version)

    async def _delete(self, place: Place[Item], uid: str) -> None:
        namespace, name = place.key
        with place.copies.vanished.noticed(place.key, uid):
            await place.target.port.delete(place.kind, name, namespace, uid=uid)

    def _is_ours(self, found: Raw, original: Raw) -> bool:
        labelled = (found["metadata"].get("labels") or {}).get(self._label) == self._deps.cluster_uid
        return labelled or copies.belongs_to(found, original["metadata"]["uid"], self._deps.cluster_uid)
