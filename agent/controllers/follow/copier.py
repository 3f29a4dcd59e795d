"""Copies of what pods need: the original is read before each, and says what becomes of them."""

import contextlib
from dataclasses import dataclass
from enum import Enum, auto

from agent.api import names
from agent.api.kinds import Kind
from agent.clusters import copier
from agent.clusters.copier import Vanished
from agent.clusters.deps import Deps
from agent.clusters.refusals import PASSING, Blocked
from agent.controllers.follow.needs import Item
from agent.kube.errors import NotFound, StatusError
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


@dataclass(frozen=True)
class Place(copier.Place[Item]):
    """Where an item comes from and goes to."""

    originals: Informer


class FollowCopier(copier.Copier[Item]):
    """Each method is one step for one item. All raise KubeError, which another try may overcome, or Blocked."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._source = deps.local.client

    async def create(self, place: Place, *, look_first: bool = False) -> Outcome:
        """Create the copy where there is an original; `look_first` where something is likely to be there."""
        original = await self._original(place)
        if original is None:
            return Outcome.MISSING
        if original.get("type") == copies.TOKEN_TYPE:
            return await self._token(place, original)
        wanted = self._wanted(place.item.kind, original)
        if look_first:
            with contextlib.suppress(Vanished):
                await self.match(place, original, wanted)
                return Outcome.THERE
        await self.put(place, original, wanted)
        return Outcome.THERE

    async def compare(self, place: Place, now: float) -> Outcome | float:
        """Make the copy the same as the original; a number is in how many seconds that may be done."""
        original = await self._original(place)
        if original is None:
            return Outcome.MISSING
        wanted = self._wanted(place.item.kind, original)
        return await self.match(place, original, wanted, now) or Outcome.THERE

    async def is_orphan(self, place: Place) -> bool:
        """Whether the source itself says that there is no original."""
        return await self._original(place) is None

    async def kept(self, place: Place, copy: Object) -> float:
        """For how many seconds a copy stays whose original is gone."""
        return self._deps.brake.wait(place.target) if place.originals.store.get(place.item.key) is None else 0.0

    async def remove(self, place: Place, uid: str) -> None:
        """Delete this very copy."""
        await self.delete(place, uid)

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

    async def _token(self, place: Place, original: Raw) -> Outcome:
        """A token of this cluster opens nothing there; whatever Secret of that name is there is the one to use."""
        item = place.item
        with place.reporting_refusals():
            try:
                await place.target.port.get_raw(item.kind, item.name, item.namespace)
            except NotFound:
                raise place.not_copied(TOKEN) from None
        self.needs_none(place, original)
        return Outcome.THERE

    def _wanted(self, kind: Kind, original: Raw) -> Raw:
        name = self._deps.settings.cluster_name
        return copies.copy_of(kind, original, cluster_name=name, cluster_uid=self._deps.cluster_uid)
