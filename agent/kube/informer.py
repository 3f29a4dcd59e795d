"""List and watch one kind, keep a store up to date, tell subscribers what changed.

A busy API server ends watches without an error. A stream that ends is resumed from the last version seen; a version
too old to resume from (410) leads to a new list, whose difference to the store is told like events: nothing is lost.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from agent.api.kinds import Kind
from agent.base.backoff import Backoff
from agent.base.memory import TRIMMER
from agent.base.metrics import WATCH_EVENTS, WATCH_RESTARTS
from agent.kube.client import METADATA_LIST, METADATA_ONE, Client, selectors
from agent.kube.errors import Gone, KubeError, StatusError, Unreachable, from_watch_error
from agent.kube.store import Key, Object, Store, metadata_only

log = logging.getLogger(__name__)

Subscriber = Callable[[Object | None, Object | None], None]
"""Called with the object before and after a change; None where it does not exist."""

Reduce = Callable[[bytes], bytes]
"""Makes of an object as the API server sent it what is kept: a JSON object whose metadata has name, namespace and
resourceVersion."""

IDLE_SECONDS = 100.0
"""API servers send a bookmark about once a minute: a stream that is silent for longer may be dead."""
PACK_SECONDS = 5.0
_PACKED_AT_ONCE = 50
_PACK_PAUSE_SECONDS = 0.1
"""A list of many objects is packed bit by bit, with a tenth of the time at most."""
_STREAM_SECONDS = (300, 600)
_SHORT_STREAM_SECONDS = 1.0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    class Meta(msgspec.Struct, rename="camel"):
        resource_version: str = ""

    metadata: Meta


_event_decoder = msgspec.json.Decoder(_Event)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)


class Informer:
    """A store of one kind, kept up to date by `run`.

    `synced` is set once the first list is in the store and stays set; `error` is what currently keeps it from being
    up to date, None while it is. With `reduce`, the store has only what it leaves of each object; with `metadata_only`,
    API servers are asked for no more.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        reduce: Reduce | None = None,
    ) -> None:
        self.client = client
        self.kind = kind
        self.namespace = namespace
        self.store = Store()
        self.synced = asyncio.Event()
        self.error: KubeError | None = None
        self._selectors = {"labels": labels, "fields": fields}
        self._reduce = reduce
        self._accept = (METADATA_LIST, METADATA_ONE) if reduce is metadata_only else ("", "")
        self._subscribers: list[Subscriber] = []
        self._fresh: OrderedDict[Key, float] = OrderedDict()
        """Large objects that are not packed, and when they changed last."""
        self._packing: asyncio.TimerHandle | None = None
        self._version = ""
        self._interrupt = asyncio.Event()
        self._watching: asyncio.Timeout | None = None
        self._backoff = Backoff(0.2, 15.0)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` for every object already here and every change from now on; returns the way to stop."""
        self._subscribers.append(subscriber)
        for obj in self.store:
            subscriber(None, obj)
        return lambda: self._subscribers.remove(subscriber)

    def absorb(self, raw: bytes) -> Object:
        """Take an object from the answer to our own write, unless the watch has seen it or something newer already.

        The next reconciliation then sees it and does not write it again.
        """
        obj = self._object(raw)
        old = self.store.get(obj.key)
        seen = old.version if old is not None else self._version
        if self.synced.is_set() and _newer(obj.version, seen):
            self._put(obj)
        return obj

    def interrupt(self) -> None:
        """End the stream and resume now: for a link that is back, where TCP itself would take long to notice."""
        self._backoff.reset()
        self._interrupt.set()
        if self._watching is not None and not self._watching.expired():
            self._watching.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow()
                self.error = None
            except TimeoutError:
                self._restarted("interrupted")
            except Gone as error:
                log.info("listing %s again: %s", self.kind, error)
                self._restarted("expired")
                self._version = ""
                await asyncio.sleep(self._backoff.next())
                continue
            except StatusError as error:
                self._failed(error, str(error.status))
            except KubeError as error:
                self._failed(error, "unreachable")
            await self._pause()

    async def _list(self) -> None:
        version, items = await self.client.list_raw(
            self.kind, self.namespace, **self._selectors, accept=self._accept[0]
        )
        fresh = [self._object(bytes(item)) for item in items]
        for key in self.store.keys() - {obj.key for obj in fresh}:
            self._remove(key, version)
        for obj in fresh:
            self._put(obj)
        self._version = version
        self.error = None
        self.synced.set()

    async def _follow(self) -> None:
        """Watch until the stream ends. Raises TimeoutError when interrupted, also while it is being opened."""
        try:
            async with asyncio.timeout(None) as self._watching:
                await self._watch()
        finally:
            self._watching = None

    async def _watch(self) -> None:
        params = selectors(**self._selectors) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*_STREAM_SECONDS)),
        }
        started = time.monotonic()
        path = self.kind.path(self.namespace)
        try:
            await self._read(path, params)
        except Unreachable:
            if time.monotonic() - started < IDLE_SECONDS:
                raise
            # Silence is no failure: of a kind that has not changed since it started, an API server sends no bookmarks.
            # Whether the link is dead shows at the next try, which comes at once.
            self._restarted("silent")
            return
        self._restarted("ended")
        if time.monotonic() - started < _SHORT_STREAM_SECONDS:
            await asyncio.sleep(self._backoff.next())

    async def _read(self, path: str, params: dict[str, str]) -> None:
        async with self.client.session.stream(path, params=params, idle=IDLE_SECONDS, accept=self._accept[1]) as stream:
            self.error = None
            self._backoff.reset()
            async for line in stream:
                self._event(line)

    def _event(self, line: bytes) -> None:
        try:
            event = _event_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreachable("what answers a watch is no Kubernetes API server") from error
        raw = bytes(event.object)
        match event.type:
            case "ADDED" | "MODIFIED":
                obj = self._object(raw)
                self._version = obj.version
                self._put(obj)
            case "DELETED":
                obj = Object(self.kind, raw)
                self._version = obj.version
                self._remove(obj.key, obj.version)
            case "BOOKMARK":
                self._version = _bookmark_decoder.decode(raw).metadata.resource_version
            case _:
                raise from_watch_error(raw)
        WATCH_EVENTS.labels(self.client.name, self.kind.plural).inc()

    def _object(self, raw: bytes) -> Object:
        return Object(self.kind, raw if self._reduce is None else self._reduce(raw))

    def _put(self, obj: Object) -> None:
        old = self.store.get(obj.key)
        if old is not None and not _newer(obj.version, old.version):
            return
        self.store.put(obj)
        self._note(obj)
        self._tell(old, obj)

    def _remove(self, key: Key, version: str) -> None:
        """Remove what was gone at a version; an object absorbed since then stays."""
        old = self.store.get(key)
        if old is not None and not _newer(old.version, version):
            self.store.remove(key)
            self._fresh.pop(key, None)
            self._tell(old, None)

    def _note(self, obj: Object) -> None:
        """What has not changed for a while is packed: most objects of a cluster hardly ever change."""
        if not obj.is_large:
            return
        loop = asyncio.get_running_loop()
        self._fresh[obj.key] = loop.time()
        self._fresh.move_to_end(obj.key)
        if self._packing is None:
            self._packing = loop.call_later(PACK_SECONDS, self._pack)

    def _pack(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_PACKED_AT_ONCE):
            key, since = next(iter(self._fresh.items()), (None, 0.0))
            if key is None or since + PACK_SECONDS > loop.time():
                break
            del self._fresh[key]
            obj = self.store.get(key)
            if obj is not None:
                obj.pack()
        self._packing = None
        if self._fresh:
            delay = next(iter(self._fresh.values())) + PACK_SECONDS - loop.time()
            self._packing = loop.call_later(max(_PACK_PAUSE_SECONDS, delay), self._pack)
        else:
            TRIMMER.trim()

    def _tell(self, old: Object | None, new: Object | None) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(old, new)

    def _failed(self, error: KubeError, reason: str) -> None:
        if self._interrupt.is_set():
            self._restarted("interrupted")
            return
        if self.error is None or str(self.error) != str(error):
            log.warning("watch of %s in cluster %s: %s", self.kind, self.client.name or "local", error)
        self.error = error
        self._restarted(reason)

    def _restarted(self, reason: str) -> None:
        WATCH_RESTARTS.labels(self.client.name, self.kind.plural, reason).inc()

    async def _pause(self) -> None:
        if self.error is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._backoff.next()):
                    await self._interrupt.wait()
        self._interrupt.clear()


def _newer(version: str, than: str) -> bool:
    """Whether a resource version is later: they are numbers, comparable within one cluster (KEP-5504)."""
    return int(version or 0) > int(than or 0)
