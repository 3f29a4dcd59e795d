"""The calls that make a copy, keep it right and take it away. What a target refuses for good is said as Blocked."""

import contextlib
from enum import Enum, auto
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import Kind
from agent.clusters.deps import Deps
from agent.clusters.refusals import HELD, NOT_OURS, PASSING, Blocked, not_copied, reporting_refusals
from agent.clusters.reverts import Reverts
from agent.clusters.target import Target
from agent.controllers.follow.needs import Item
from agent.kube.errors import AlreadyExists, Conflict, NotFound, StatusError
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import copies
from agent.model.copies import Raw

TOKEN = (
    "it is the token of a service account of this cluster; create a Secret of that name there, or annotate the pod"
    f" {names.SHORT_PREFIX}{names.SOURCE_API}=true"
)


class Outcome(Enum):
    """What has become of an item that is needed."""

    THERE = auto()
    MISSING = auto()
    """The source has no such object."""


class Vanished(Conflict):
    """The copy has gone since it was seen."""


class Place(NamedTuple):
    """Where an item comes from and goes to."""

    item: Item
    target: Target
    originals: Informer
    copies: Informer

    @property
    def title(self) -> str:
        """How users call the object."""
        return f"{self.item.kind.name} {self.item.namespace}/{self.item.name}"


class Bringer:
    """Each method is one step for one item. All raise KubeError, which another try may overcome, or Blocked."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._source = deps.local.client
        self.agreed: dict[Item, tuple[str, str]] = {}
        """Versions of original and copy that are the same."""
        self._reverts: Reverts[Item] = Reverts()

    def forget(self, item: Item) -> None:
        """There is no copy of it any more."""
        self.agreed.pop(item, None)
        self._reverts.forget(item)

    async def create(self, place: Place, *, look_first: bool = False) -> Outcome:
        """Create the copy where there is an original; `look_first` where something is likely to be there."""
        original = await self._original(place)
        if original is None:
            return Outcome.MISSING
        if original.get("type") == copies.TOKEN_TYPE:
            return await self._token(place, original)
        if look_first:
            with contextlib.suppress(Vanished):
                return await self._adopt(place, original)
        return await self._create(place, original)

    async def compare(self, place: Place, now: float) -> Outcome | float:
        """Make the copy the same as the original; a number is in how many seconds that may be done."""
        original = await self._original(place)
        if original is None:
            return Outcome.MISSING
        return await self._compare(place, original, now)

    async def is_orphan(self, place: Place) -> bool:
        """Whether the source itself says that there is no original."""
        return await self._original(place) is None

    async def kept(self, place: Place, copy: Object) -> float:
        """For how many seconds a copy stays whose original is gone."""
        return self._deps.brake.wait(place.target) if place.originals.store.get(place.item.key) is None else 0.0

    async def remove(self, place: Place, uid: str) -> None:
        """Delete this very copy."""
        item = place.item
        with (
            reporting_refusals(place.title, place.target, place.item.kind),
            contextlib.suppress(NotFound, Conflict),
            place.copies.vanished.noticed((item.namespace, item.name), uid),
        ):
            await place.target.port.delete(item.kind, item.name, item.namespace, uid=uid)
        self.forget(item)

    async def _original(self, place: Place) -> Raw | None:
        """The original as its API server has it now, None for one that is gone or going."""
        item = place.item
        try:
            raw = await self._source.get_raw(item.kind, item.name, item.namespace)
        except NotFound:
            return None
        except PASSING:
            raise
        except StatusError as error:
            raise Blocked(f"{place.title} cannot be read: {error}") from error
        place.originals.absorb(raw)
        found = Object(item.kind, raw).decode()
        return None if "deletionTimestamp" in found["metadata"] else found

    async def _create(self, place: Place, original: Raw) -> Outcome:
        wanted = self._wanted(place.item.kind, original)
        try:
            with reporting_refusals(place.title, place.target, place.item.kind):
                raw = await place.target.port.create_raw(place.item.kind, wanted)
        except AlreadyExists:
            return await self._adopt(place, original)
        self._agree(place, original, raw)
        return Outcome.THERE

    async def _token(self, place: Place, original: Raw) -> Outcome:
        """A token of this cluster opens nothing there; whatever Secret of that name is there is the one to use."""
        item = place.item
        with reporting_refusals(place.title, place.target, place.item.kind):
            try:
                await place.target.port.get_raw(item.kind, item.name, item.namespace)
            except NotFound:
                raise Blocked(not_copied(place.title, place.target, TOKEN)) from None
        return self._needs_none(place, original)

    async def _adopt(self, place: Place, original: Raw) -> Outcome:
        outcome = await self._compare(place, original, None)
        assert isinstance(outcome, Outcome)
        return outcome

    async def _compare(self, place: Place, original: Raw, now: float | None) -> Outcome | float:
        """Without `now`, whatever differs is put right at once."""
        item, port = place.item, place.target.port
        with reporting_refusals(place.title, place.target, place.item.kind):
            try:
                raw = await port.get_raw(item.kind, item.name, item.namespace)
            except NotFound as error:
                raise Vanished(error.status, error.reason, error.message) from error
        copy = Object(item.kind, raw).decode()
        if copies.is_same_or_upstream(copy, original):
            return self._needs_none(place, original)
        if not copies.belongs_to(copy, original["metadata"]["uid"], self._deps.cluster_uid):
            raise Blocked(not_copied(place.title, place.target, NOT_OURS))
        if "deletionTimestamp" in copy["metadata"]:
            raise Blocked(not_copied(place.title, place.target, HELD))
        wanted = self._wanted(item.kind, original)
        if copies.same_content(copy, wanted):
            self._agree(place, original, raw)
            return Outcome.THERE
        version = original["metadata"]["resourceVersion"]
        if now is not None and (wait := self._reverts.wait(item, self.agreed.get(item), version, now)) > 0:
            return wait
        await self._revise(place, original, copy, wanted)
        return Outcome.THERE

    async def _revise(self, place: Place, original: Raw, copy: Raw, wanted: Raw) -> None:
        item, port = place.item, place.target.port
        with reporting_refusals(place.title, place.target, place.item.kind):
            if copies.must_be_replaced(copy, wanted):
                await port.delete(item.kind, item.name, item.namespace, uid=copy["metadata"]["uid"])
                raw = await port.create_raw(item.kind, wanted)
            else:
                raw = await port.update_raw(item.kind, copies.revised(copy, wanted))
        self._agree(place, original, raw)

    def _wanted(self, kind: Kind, original: Raw) -> Raw:
        name = self._deps.settings.cluster_name
        return copies.copy_of(kind, original, cluster_name=name, cluster_uid=self._deps.cluster_uid)

    def _needs_none(self, place: Place, original: Raw) -> Outcome:
        self.agreed[place.item] = (original["metadata"]["resourceVersion"], "")
        return Outcome.THERE

    def _agree(self, place: Place, original: Raw, raw: bytes) -> None:
        """What the target made of our write counts as the same, also where its own admission changed it."""
        version = place.copies.absorb(raw).version
        self.agreed[place.item] = (original["metadata"]["resourceVersion"], version)
