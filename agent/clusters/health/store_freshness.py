"""Check whether a target's store is up to date again after its cluster could not be reached.

When a connection returns, probes are answered before the watch has been resumed: until then the store is stale.
It is up to date once two conditions hold. The watch was reopened, or a list was read, after the cluster
answered. The store contains everything that the API server had at that moment.
"""

import asyncio
import logging
from collections.abc import Callable

from agent.kube.errors import KubeError, StatusError, Unreadable
from agent.kube.freshness import Lag, lag
from agent.kube.informer import Informer

log = logging.getLogger(__name__)

_OPENING_SECONDS = 5.0
_CATCHING_UP_SECONDS = 1.0
_COMPARISONS = 3
"""Comparisons before the informer relists: its watch may deliver no events."""
_LISTING_SECONDS = 60.0
_LOOK_SECONDS = 0.02


class StoreFreshness:
    """Freshness of one informer's store; calls `regained` when the store is up to date again."""

    def __init__(self, informer: Informer, regained: Callable[[], None]) -> None:
        self.doubted = False
        """Whether the store may be stale."""
        self._informer = informer
        self._regained = regained
        self._reachable = asyncio.Event()
        self._losses = 0
        self._contacts = 0

    def lose(self) -> None:
        """Record that the cluster does not answer."""
        self.doubted = True
        self._losses += 1
        self._reachable.clear()

    def answered(self, *, again: bool) -> None:
        """Record that the cluster answers. `again`: for the first time since an outage, so its watch has to be
        resumed.
        """
        if again:
            self._contacts = self._informer.contacts
        self._reachable.set()

    async def run(self) -> None:
        """Check the store whenever the cluster answers and the store may be stale, until cancelled."""
        while True:
            await self._reachable.wait()
            self._reachable.clear()
            losses = self._losses
            try:
                caught_up = self.doubted and await self._catch_up()
            except KubeError as error:
                # The next answered probe triggers another try.
                log.debug("%s in cluster %s: %s", self._informer.kind, self._informer.client.name, error)
                continue
            if caught_up and losses == self._losses:
                self.doubted = False
                self._regained()

    async def _catch_up(self) -> bool:
        informer, before = self._informer, self._contacts
        if not await self._until(lambda: informer.contacts > before, _OPENING_SECONDS):
            return False
        for _ in range(_COMPARISONS):
            try:
                missing = await lag(informer)
            except (Unreadable, StatusError) as error:
                log.info("%s in cluster %s cannot be compared: %s", informer.kind, informer.client.name, error)
                break
            if await self._has(missing):
                return True
        lists = informer.lists
        log.info("%s in cluster %s are listed anew", informer.kind, informer.client.name)
        informer.relist()
        return await self._until(lambda: informer.lists > lists, _LISTING_SECONDS)

    async def _has(self, missing: Lag) -> bool:
        return await self._until(lambda: not missing.left(self._informer), _CATCHING_UP_SECONDS)

    async def _until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Return whether the condition becomes true in time, and before the cluster is lost again."""
        loop, losses = asyncio.get_running_loop(), self._losses
        end = loop.time() + seconds
        while not true():
            if self._losses != losses or loop.time() > end:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True
