"""Lingering: objects that are deleted together with their CRD count for another minute.

A CRD that is restored or reinstalled is deleted with all of its objects, which a backup or a user then creates again.
Rules that such objects set would end meanwhile. The deletion of a single object counts after a second.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable

import msgspec

from agent.api.kinds import Kind
from agent.base.grace import ABSENT_SECONDS
from agent.clusters.optional_watch import OptionalWatch, Watched
from agent.clusters.port import Port
from agent.kube.errors import KubeError
from agent.kube.store import Key, Object
from agent.kube.subscribers import Subscriber

LOOK_SECONDS = 1.0
"""Seconds from a deletion until the kind is checked: the API server marks a CRD shortly before it deletes objects."""


class _Deleted(msgspec.Struct):
    since: float
    """Monotonic time in seconds at which the watch reported it."""
    with_kind: bool = False
    """Whether the kind was not served, or its CRD was being deleted."""


class Lingering:
    """Filter between an optional watch and its subscriber: forwards deletions later."""

    def __init__(self, port: Port, kind: Callable[[], Kind], forward: Subscriber) -> None:
        """:param kind: returns the kind in the watched version
        :param forward: called for each change, and for a deletion once it counts
        """
        self._port = port
        self._kind = kind
        self._forward = forward
        self._known: dict[Key, Object] = {}
        """All objects that count, deleted ones included."""
        self._deleted: dict[Key, _Deleted] = {}
        self._news = asyncio.Event()
        self._cancel: Callable[[], None] | None = None

    def get(self, key: Key) -> Object | None:
        """Return an object that counts; None if there is none of this name."""
        return self._known.get(key)

    def keys(self) -> Collection[Key]:
        """Return namespaces and names of all objects that count."""
        return self._known.keys()

    def is_deleted(self, key: Key) -> bool:
        """Return whether an object has been deleted and still counts."""
        return key in self._deleted

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Handle a change of an object that the watch reports."""
        if new is not None:
            self._deleted.pop(new.key, None)
            before, self._known[new.key] = self._known.get(new.key), new
            self._forward(before, new)
        elif old is not None:
            self._hold((old.key,))

    def turned(self, watch: OptionalWatch | Watched) -> None:
        """Handle that the store of the watch has become available or unavailable.

        Objects that the store lacks are deleted. If only the right to read them is missing, that proves nothing.
        """
        if watch.store is not None or not watch.is_withheld:
            self._hold(self._known)

    def stop(self) -> None:
        """Stop checking the kind."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _hold(self, keys: Iterable[Key]) -> None:
        now = asyncio.get_running_loop().time()
        for key in keys:
            if key in self._known:
                self._deleted.setdefault(key, _Deleted(now))
        if self._deleted:
            self._cancel = self._cancel or self._port.spawn(f"deleted {self._kind()}", self._run)
            self._news.set()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._deleted:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    served = await self._port.can_create(self._kind())
                except KubeError:
                    continue
                self._judge(served=served)

    def _judge(self, *, served: bool) -> None:
        """Let deletions count: at once if objects of the kind can be created, else once the minute is over."""
        now = asyncio.get_running_loop().time()
        for key, deleted in list(self._deleted.items()):
            if now < deleted.since + LOOK_SECONDS / 2:
                continue
            deleted.with_kind = deleted.with_kind or not served
            if not deleted.with_kind or now >= deleted.since + ABSENT_SECONDS:
                del self._deleted[key]
                self._forward(self._known.pop(key), None)
