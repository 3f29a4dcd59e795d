"""Copies of objects that pods need. Each step reads the original first, which decides about the copy."""

import contextlib
from enum import Enum, auto

from agent.api import names
from agent.api.kinds import SERVICE_ACCOUNTS, Kind
from agent.clusters.copies import copier
from agent.clusters.copies.copier import Vanished
from agent.clusters.copies.copy_failures import UNTOLD
from agent.clusters.copies.refusals import PASSING, Blocked
from agent.clusters.deps import Deps
from agent.dependencies.follow.needs import Item, Needs
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
    """Result of copying a needed object."""

    THERE = auto()
    MISSING = auto()
    """The source has no such object."""


class Place(copier.Place[Item], frozen=True):
    """An object and the target to copy it to."""

    originals: Informer


class FollowCopier(copier.Copier[Item]):
    """Copies objects that pods need, one step per method. All raise KubeError, which a retry may overcome, or
    Blocked."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._source = deps.local.client

    async def create(self, place: Place, *, look_first: bool = False) -> Outcome:
        """Create the copy if the original exists. `look_first`: compare first, since a copy probably exists."""
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
        """Update the copy from the original; a number is the seconds until that may be done."""
        original = await self._original(place)
        if original is None:
            return Outcome.MISSING
        wanted = self._wanted(place.item.kind, original)
        return await self.match(place, original, wanted, now) or Outcome.THERE

    async def is_orphan(self, place: Place) -> bool:
        """Return whether the source's API server has no original."""
        return await self._original(place) is None

    async def kept(self, place: Place, copy: Object) -> float:
        """Return the seconds for which the copy of a deleted original stays."""
        return (
            self._deps.orphan_deletion_guard.wait(place.target)
            if place.originals.store.get(place.item.key) is None
            else 0.0
        )

    async def remove(self, place: Place, uid: str) -> None:
        """Delete the copy with this UID."""
        await self.delete(place, uid)

    async def _original(self, place: Place) -> Raw | None:
        """Read the original from its API server; None if it has been or is being deleted."""
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
        """A token of this cluster is useless in the target, so pods use any Secret of that name in the target."""
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
"""Pause in seconds between checks whether the last pod that uses an account has been deleted."""


class AccountCopier(FollowCopier):
    """Copies ServiceAccounts. A foreign account suffices, unless the user requested a copy.

    In namespaces that elect by default, accounts are copied without a request. If the target's administrator
    has created the account or refuses the kind, pods that find their account in the target run as before.
    """

    def __init__(self, deps: Deps, needs: Needs) -> None:
        super().__init__(deps)
        self._needs = needs

    def is_due(self, item: Item) -> bool:
        """Return whether to report that the source may not read this kind in the target."""
        return item.kind != SERVICE_ACCOUNTS or self._needs.asked_for(item)

    async def create(self, place: Place, *, look_first: bool = False) -> Outcome:
        """Create the account if the target has none."""
        try:
            return await super().create(place, look_first=look_first)
        except Blocked as error:
            if self._needs.asked_for(place.item) or await self._is_there(place) is False:
                raise
            # The foreign account may be deleted later, for example by its source; this pause requeues the item.
            raise Blocked(UNTOLD) from error

    async def kept(self, place: Place, copy: Object) -> float:
        """Keep accounts in use: a namespace that merely ceases to ask takes none from its running pods."""
        in_use = place.originals.store.get(place.item.key) is not None and self._needs.is_in_use(place.item)
        return await super().kept(place, copy) or (_LOOK_SECONDS if in_use else 0.0)

    async def _is_there(self, place: Place) -> bool | None:
        """Return whether the account exists; None without the right to list, which roles for Admiralty's sources
        lack."""
        item, port = place.item, place.target.port
        try:
            _, found = await port.list_raw(item.kind, item.namespace, fields=f"metadata.name={item.name}")
        except Forbidden:
            return None
        return bool(found)
