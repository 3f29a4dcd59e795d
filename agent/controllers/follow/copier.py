"""Copies of what pods need: the original is read before each, and says what becomes of them."""

import contextlib
from enum import Enum, auto

from agent.api import names
from agent.api.kinds import SERVICE_ACCOUNTS, Kind
from agent.clusters import copier
from agent.clusters.blocked import UNTOLD
from agent.clusters.copier import Vanished
from agent.clusters.deps import Deps
from agent.clusters.refusals import PASSING, Blocked
from agent.controllers.follow.needs import Item, Needs
from agent.kube.errors import Forbidden, NotFound, StatusError
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


class Place(copier.Place[Item], frozen=True):
    """Where an item comes from and goes to."""

    originals: Informer


class FollowCopier(copier.Copier[Item]):
    """Copies what pods need, one step per method. All raise KubeError, which another try may overcome, or Blocked."""

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


_LOOK_SECONDS = 10.0
"""Pause between looks whether the last pod that uses an account has gone."""


class AccountCopier(FollowCopier):
    """Copies ServiceAccounts; one that is there and not ours serves as well, unless the copy was asked for.

    In a namespace that elects by default accounts follow without being asked for. Where the target's administrator has
    made the account, or lets nothing of that kind in, all is as it was: pods that find their account there run.
    """

    def __init__(self, deps: Deps, needs: Needs) -> None:
        super().__init__(deps)
        self._needs = needs

    def is_due(self, item: Item) -> bool:
        """Whether somebody is to be told that an item cannot be looked at in its target."""
        return item.kind != SERVICE_ACCOUNTS or self._needs.asked_for(item)

    async def create(self, place: Place, *, look_first: bool = False) -> Outcome:
        """Create the account where there is none."""
        try:
            return await super().create(place, look_first=look_first)
        except Blocked as error:
            if self._needs.asked_for(place.item) or await self._is_there(place) is False:
                raise
            # What serves as well may go, as another source's copy does with its pods: it is looked at again.
            raise Blocked(UNTOLD) from error

    async def kept(self, place: Place, copy: Object) -> float:
        """A namespace that merely ceases to ask leaves the pods that are there what they have found there."""
        in_use = place.originals.store.get(place.item.key) is not None and self._needs.is_in_use(place.item)
        return await super().kept(place, copy) or (_LOOK_SECONDS if in_use else 0.0)

    async def _is_there(self, place: Place) -> bool | None:
        """By a right that Sources of ours have and Admiralty's do not; None where it cannot be known."""
        item, port = place.item, place.target.port
        try:
            _, found = await port.list_raw(item.kind, item.namespace, fields=f"metadata.name={item.name}")
        except Forbidden:
            return None
        return bool(found)
