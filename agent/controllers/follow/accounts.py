"""Service accounts: one of that name that is not ours serves as well, unless the copy was asked for by name.

In a namespace that elects by default they follow without anybody's asking. Where the target's administrator has made
the account, or lets nothing of that kind in, all is as it was: pods that find their account there run.
"""

from agent.api.kinds import SERVICE_ACCOUNTS
from agent.clusters.blocked import UNTOLD
from agent.clusters.deps import Deps
from agent.clusters.refusals import Blocked
from agent.controllers.follow.copier import FollowCopier, Outcome, Place
from agent.controllers.follow.needs import Item, Needs
from agent.kube.errors import Forbidden
from agent.kube.store import Object

_LOOK_SECONDS = 10.0
"""Pause between looks whether the last pod that uses an account has gone."""


class AccountCopier(FollowCopier):
    """As for any other kind, but for what is said above."""

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
