"""List and watch one kind, keep a store up to date, notify subscribers of changes.

A busy API server ends watches without an error. A stream that ends is resumed from the last version seen. If that
version is too old (410), or the API server has lost it (`rollback`), the informer lists again. Subscribers receive the
difference to the store like events, once all of the list is in the store.

A bad object affects no other object. An unreadable object is skipped and reported (`flaws`); its last readable version
stays, since it may still exist. A subscriber that fails at an object does not keep others from receiving it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable

from agent.api.kinds import Kind
from agent.base.backoff import Backoff
from agent.base.events import set_within
from agent.base.listeners import tell
from agent.base.metrics import WATCH_EVENTS, WATCH_RESTARTS
from agent.base.progress import expect
from agent.kube.budget import Budget
from agent.kube.client import METADATA_LIST, METADATA_ONE, Client, selectors
from agent.kube.contents import Contents
from agent.kube.errors import (
    Forbidden,
    Gone,
    KubeError,
    Outdated,
    StatusError,
    Unreachable,
    Unreadable,
    without_frames,
)
from agent.kube.metadata import METADATA
from agent.kube.reading import Reader, Reduce
from agent.kube.responsiveness import Hearing
from agent.kube.rollback import Progress, number
from agent.kube.store import Key, Object
from agent.kube.subscribers import Subscriber

log = logging.getLogger(__name__)

IDLE_SECONDS = 100.0
"""API servers send a bookmark about once a minute: a stream that is silent for longer may be dead."""
REST_SECONDS = 3600.0
"""Longest additional pause while the cluster does not answer; the answer to a probe interrupts it. Retries would keep
the slots for openings (`openings`) from the watches of other clusters."""
_REST_STEP_SECONDS = 60.0
_STREAM_SECONDS = (300, 600)
_SHORT_STREAM_SECONDS = 1.0
_RELIST_SECONDS = 30.0
"""Longest pause before a new list, where lists follow each other."""


class Informer:
    """A store of one kind, kept up to date by `run`.

    `synced` is set once subscribers have received the first list, and stays set. `error` is the current obstacle to
    being up to date, None without one. `flaws` are the unreadable objects. With `reduce`, the store has only its result
    for each object; with a member of `METADATA`, only metadata is requested.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        reduce: Reduce | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.client = client
        self.kind = kind
        self.namespace = namespace
        self.budget = budget or Budget()
        self._progress = Progress()
        self._contents = Contents(client, kind, self.budget, self._progress)
        self._subscribers = self._contents.subscribers
        self.store, self.flaws, self.vanished = self._contents.store, self._contents.flaws, self._contents.vanished
        self.synced = asyncio.Event()
        self.error: KubeError | None = None
        self.hearing = Hearing()
        self.selectors = {"labels": labels, "fields": fields}
        self._reader = Reader(kind, reduce)
        self._accept = (METADATA_LIST, METADATA_ONE) if reduce in METADATA else ("", "")
        self._telling = False
        self._failures: list[Callable[[], object]] = []
        self._interrupt = asyncio.Event()
        self._rests = False
        self._watching: asyncio.Timeout | None = None
        self._backoff = Backoff(0.2, 15.0)
        """Pauses before a watch is resumed; reset by a watch that lasts."""
        self._refused = Backoff(1.0, 15.0)
        """Before another try at what we may not read and never did."""
        self._relisting = Backoff(0.2, _RELIST_SECONDS)
        self._listed_at = 0.0
        self.lists = 0
        """Number of complete lists."""
        self.contacts = 0
        """Number of complete lists and opened watches."""

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` for every stored object and every later change; returns a function that unsubscribes."""
        return self._subscribers.add(subscriber)

    def on_failure(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` after each failure, when `error` is set; returns a function that unsubscribes."""
        self._failures.append(listener)
        return lambda: self._failures.remove(listener)

    @property
    def has_subscribers(self) -> bool:
        """Return whether there are subscribers."""
        return bool(self._subscribers)

    @property
    def relisting(self) -> bool:
        """Return whether current changes come from a list: objects were deleted between watches, or lost by etcd."""
        return self._telling or self._progress.lists_next

    @property
    def rollbacks(self) -> int:
        """Return how often the API server has lost a part of its history."""
        return self._progress.rollbacks

    def absorb(self, raw: bytes) -> Object:
        """Take an object from the answer to our own write, unless the watch has seen it or something newer already.

        The next reconciliation then sees it and does not write it again. Raises Unreadable.
        """
        obj = self._reader.object(raw)
        if self.synced.is_set() and not self._progress.rolled_back:
            old = self.store.get(obj.key)
            if number(obj.version) > number(old.version if old is not None else self._progress.version):
                self._contents.put(obj, number(obj.version))
        return obj

    def interrupt(self) -> None:
        """End the stream and resume now: for a link that is back, where TCP itself would take long to notice."""
        for backoff in (self._backoff, self._refused, self._relisting):
            backoff.reset()
        self._rests = False
        self._interrupt.set()
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(asyncio.get_running_loop().time())

    def rest(self) -> None:
        """Retry rarely until `interrupt`: the cluster does not answer other requests, either."""
        self._rests = True

    def relist(self) -> None:
        """List again now, because the store may be outdated."""
        self._progress.starts_over()
        self.interrupt()

    async def run(self) -> None:
        """List and watch until cancelled."""
        with self.client.history.joined(self._lost):
            while True:
                self.hearing.turned()
                await self._pause(await self._round())

    async def _round(self) -> Backoff | None:
        """List if needed, then watch until the watch ends; returns the backoff before the next round."""
        try:
            while self._progress.lists_next:
                await self._list()
            await self._follow()
            self.error = None
            return None
        except TimeoutError:
            self._restarted("interrupted")
            return None
        except (Gone, Outdated) as error:
            log.info("listing %s of cluster %s again: %s", self.kind, self.client.name or "local", error)
            self._restarted("expired" if isinstance(error, Gone) else error.reason)
        except Unreadable as error:
            self._failed(error, "unreadable")
        except KubeError as error:
            self._failed(error, str(error.status) if isinstance(error, StatusError) else "unreachable")
            return self._refused if isinstance(error, Forbidden) and not self.synced.is_set() else self._backoff
        self._progress.starts_over()
        return self._relisting

    async def _list(self) -> None:
        try:
            version = await self._fill()
        except KubeError:
            if self.synced.is_set():
                await self._tell()
            raise
        # Later writes are compared with this list.
        self._progress.listed(version)
        await self._tell()
        self.error = None
        self.lists += 1
        self.contacts += 1
        self.synced.set()
        if time.monotonic() - self._listed_at > 2 * _RELIST_SECONDS:
            self._relisting.reset()
        self._listed_at = time.monotonic()

    async def _fill(self) -> str:
        """Put the listed objects into the store; returns the version of the list."""
        version, replaced, listed, nameless = "", 0, set[Key](), False
        self.vanished.forget()
        async for page in self.client.pages(self.kind, self.namespace, **self.selectors, accept=self._accept[0]):
            version, replaced = page.version, self._progress.lists(page.version)
            self.hearing.word()
            for item in page.items:
                started = time.monotonic()
                told = self._reader.item(bytes(item), page.flaw)
                with self._subscribers:
                    self._contents.take(told, replaced)
                await self.budget.share.worked(time.monotonic() - started)
                if told.key is None:
                    nameless = True
                else:
                    listed.add(told.key)
        # An item without a name may be any of the missing objects.
        with self._subscribers:
            for key in self.store.keys() - listed if not nameless else ():
                self._contents.remove(key, replaced)
        return version

    async def _tell(self) -> None:
        """Notify subscribers of the changes from a list."""
        self._telling = True
        try:
            started = time.monotonic()
            for _ in self._subscribers.told():
                await self.budget.share.worked(time.monotonic() - started)
                started = time.monotonic()
        finally:
            self._telling = False

    async def _follow(self) -> None:
        """Watch until the stream ends. Raises TimeoutError when interrupted, also while it is being opened."""
        try:
            async with asyncio.timeout(None) as self._watching:
                await self._progress.check(self.client, self.kind, self.namespace, self.selectors["fields"])
                await self._watch()
        finally:
            self._progress.ended()
            self._watching = None

    def _lost(self) -> None:
        if self.synced.is_set():
            self._progress.roll_back()
            self.interrupt()

    async def _watch(self) -> None:
        params = selectors(**self.selectors) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._progress.version,
            "timeoutSeconds": str(random.randint(*_STREAM_SECONDS)),
        }
        started = time.monotonic()
        path = self.kind.path(self.namespace)
        try:
            await self._read(path, params)
        except Unreachable as error:
            if isinstance(error, Unreadable) or time.monotonic() - started < IDLE_SECONDS:
                raise
            # Silence is no failure: an API server sends no bookmarks of a kind that has not changed since it started.
            # The next try follows at once and shows whether the connection is dead.
            self._restarted("silent")
            return
        self._restarted("ended")
        if time.monotonic() - started < _SHORT_STREAM_SECONDS:
            await asyncio.sleep(self._backoff.next())

    async def _read(self, path: str, params: dict[str, str]) -> None:
        async with self.client.session.stream(path, params=params, idle=IDLE_SECONDS, accept=self._accept[1]) as stream:
            self.error = None
            self.hearing.word()
            self._progress.opened()
            self.contacts += 1
            opened = time.monotonic()
            try:
                async for line in stream:
                    started = time.monotonic()
                    self._event(line)
                    self.hearing.well()
                    await self.budget.share.worked(time.monotonic() - started)
            finally:
                if time.monotonic() - opened >= _SHORT_STREAM_SECONDS:
                    self._backoff.reset()
                    self.hearing.well()

    def _event(self, line: bytes) -> None:
        told = self._reader.event(line)
        self._progress.told(told.version)
        self._contents.take(told, number(told.version))
        WATCH_EVENTS.labels(self.client.name, self.kind.plural).inc()

    def _failed(self, error: KubeError, reason: str) -> None:
        if self._interrupt.is_set():
            self._restarted("interrupted")
            return
        if self.error is None or str(self.error) != str(error):
            log.warning("watch of %s in cluster %s: %s", self.kind, self.client.name or "local", error)
        without_frames(error)
        self.error = error
        tell(self._failures)
        self.hearing.failed()
        self._restarted(reason)

    def _restarted(self, reason: str) -> None:
        WATCH_RESTARTS.labels(self.client.name, self.kind.plural, reason).inc()

    async def _pause(self, backoff: Backoff | None) -> None:
        if backoff is not None:
            interrupted = await set_within(self._interrupt, backoff.next())
            until = time.monotonic() + REST_SECONDS * random.random()
            while self._rests and not interrupted and time.monotonic() < until:
                expect(_REST_STEP_SECONDS)
                interrupted = await set_within(self._interrupt, _REST_STEP_SECONDS)
        self._interrupt.clear()
