"""Optional watch: of a kind that an API server may not serve, or not let us read; it is tried again now and then."""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.api.kinds import Kind
from agent.base.listeners import tell
from agent.clusters.port import Port
from agent.kube.errors import Forbidden, KubeError, NotFound
from agent.kube.reading import Reduce
from agent.kube.store import IndexFunction, Object, Store
from agent.kube.subscribers import Subscriber

if TYPE_CHECKING:
    from agent.kube.informer import Informer

log = logging.getLogger(__name__)

_NO_ANSWER_SECONDS = 5.0

_BRIEF_SECONDS = 10.0
"""For so long what was read is believed though it is forbidden now: to an API server that has just been started nobody
may anything until it has read its roles.
"""
_LOOK_SECONDS = 1.0

_REFUSALS = (Forbidden, NotFound)
"""Answers that stay the same for a while; others, as of a server that has too much to do, say nothing of the kind."""


class OptionalWatch:
    """`store` is None while there is none to believe; `changed` is called as of an informer while there is one.

    `turned` is called when it came or went; when it came, `changed` is called with all that is in it right afterwards.
    With `any_version` it is watched in the newest that is served, whichever version the kind names.
    """

    def __init__(
        self,
        port: Port,
        kind: Kind,
        namespace: str | None,
        interval: float,
        changed: Subscriber,
        turned: Callable[[], None],
        *,
        labels: str = "",
        reduce: Reduce | None = None,
        any_version: bool = False,
    ) -> None:
        self._port = port
        self._kind = kind
        self._any_version = any_version
        self._namespace = namespace
        self._interval = interval
        self._changed = changed
        self._turned = turned
        self._labels = labels
        self._reduce = reduce
        self._informer: Informer | None = None
        self._listed = False
        self._refusal = ""
        self._forbidden_since: float | None = None
        """As far as it could be read before."""
        self._again = asyncio.Event()
        self._stops: tuple[Callable[[], None], ...] = ()
        self._cancel = port.spawn(f"discover {kind}", self._run)

    @property
    def store(self) -> Store | None:
        """All objects of the kind, once they have been read."""
        return self._informer.store if self._informer is not None and self._listed else None

    @property
    def kind(self) -> Kind:
        """In the version that is watched."""
        return self._kind

    def absorb(self, raw: bytes) -> Object | None:
        """Take an object from the answer to our own write. Raises Unreadable."""
        return self._informer.absorb(raw) if self._informer is not None else None

    @property
    def refusal(self) -> str:
        """Why it is not watched, as the API server says; empty while it is, or has not been asked."""
        return self._refusal

    @property
    def is_withheld(self) -> bool:
        """Whether what was read before may not be read any more, as far as the API server has said anything."""
        return self._forbidden_since is not None

    def look(self) -> None:
        """It may be served by now: find out at once, unless that is known."""
        if self._informer is None:
            self._again.set()

    def stop(self) -> None:
        """Stop the watch and forget what it told."""
        self._cancel()
        self._drop()

    async def _run(self) -> None:
        while True:
            pause = self._interval
            if self._is_refused():
                if self._forbidden_for() < _BRIEF_SECONDS:
                    pause = _LOOK_SECONDS
                else:
                    self._drop()
                    self._turned()
            if self._informer is None:
                try:
                    await self._ask()
                except _REFUSALS as error:
                    self._refused(str(error))
                    pause = min(pause, max(_NO_ANSWER_SECONDS, self._forbidden_for()))
                    if isinstance(error, NotFound) and self._forbidden_since is not None:
                        # It may be read again, and is no more.
                        self._forbidden_since = None
                        self._turned()
                except KubeError:
                    pause = min(pause, _NO_ANSWER_SECONDS)
                else:
                    self._refusal, self._forbidden_since = "", None
                    self._informer = informer = self._port.informer(
                        self._kind, self._namespace, labels=self._labels, reduce=self._reduce
                    )
                    if informer.error is not None:
                        # Others have kept it, and it may wait for long until it tries again.
                        informer.interrupt()
                    self._stops = informer.subscribe(self._forward), informer.on_failure(self._again.set)
            try:
                async with asyncio.timeout(pause):
                    await self._news()
            except TimeoutError:
                pass
            self._again.clear()

    async def _ask(self) -> None:
        """Raises NotFound where it is not served, Forbidden where we may not list it."""
        if self._any_version:
            self._kind = await self._port.newest(self._kind) or self._kind
        await self._port.try_list(self._kind, self._namespace)

    def _is_refused(self) -> bool:
        """Whether what was watched is not to be read any more."""
        error = self._informer.error if self._informer is not None else None
        if not isinstance(error, Forbidden):
            if self._informer is not None:
                self._forbidden_since = None
        elif self._forbidden_since is None and self._listed:
            self._forbidden_since = asyncio.get_running_loop().time()
        return isinstance(error, _REFUSALS)

    def _forbidden_for(self) -> float:
        """Seconds since it could be read, and was; very many where it never could."""
        since = self._forbidden_since
        return asyncio.get_running_loop().time() - since if since is not None else math.inf

    async def _news(self) -> None:
        if self._informer is None or self._listed:
            await self._again.wait()
            return
        await self._informer.synced.wait()
        self._listed = True
        self._turned()
        for obj in list(self._informer.store):
            tell((self._changed,), None, obj)

    def _forward(self, old: Object | None, new: Object | None) -> None:
        """Who keeps account of what is told, and forgets it while `store` is None, would lose what is told before."""
        if self._listed:
            self._changed(old, new)

    def _refused(self, reason: str) -> None:
        """Once as long as the reason stays the same."""
        if reason != self._refusal:
            self._refusal = reason
            log.info("%s are not watched in cluster %s: %s", self._kind, self._port.name, reason)

    def _drop(self) -> None:
        if self._informer is not None:
            for stop in self._stops:
                stop()
            if not self._informer.has_subscribers:
                self._port.drop(self._informer)
            self._informer = None
            self._listed = False


class Watched:
    """One kind, for everybody who asks about it; `store` is None while there is none to believe."""

    def __init__(
        self, port: Port, kind: Kind, interval: float, *, labels: str = "", reduce: Reduce | None = None
    ) -> None:
        self._of = (port, kind, interval)
        self._labels = labels
        self._reduce = reduce
        self._watch: OptionalWatch | None = None
        self._changed: list[Subscriber] = []
        self._turned: list[Callable[[], None]] = []

    @property
    def store(self) -> Store | None:
        """All objects of the kind."""
        return self._watch.store if self._watch is not None else None

    @property
    def refusal(self) -> str:
        """Why there is none, as the API server says."""
        return self._watch.refusal if self._watch is not None else ""

    @property
    def is_withheld(self) -> bool:
        """Whether what was read before may not be read any more."""
        return self._watch is not None and self._watch.is_withheld

    def find(self, index: str, function: IndexFunction, value: str) -> list[Object]:
        """Those under a value of an index of `store`, which is kept from the first use on; none while there is none."""
        store = self.store
        if store is None:
            return []
        store.index(index, function)
        return store.by_index(index, value)

    def subscribe(self, changed: Subscriber, turned: Callable[[], None]) -> None:
        """Call `changed` as an informer does, and `turned` when `store` came or went."""
        self._changed.append(changed)
        self._turned.append(turned)
        for obj in self.store or ():
            changed(None, obj)

    def absorb(self, raw: bytes) -> None:
        """Take an object from the answer to our own write. Raises Unreadable."""
        if self._watch is not None:
            self._watch.absorb(raw)

    def wanted(self, wanted: bool) -> None:
        """Watch from now on, or no longer."""
        if wanted and self._watch is None:
            port, kind, interval = self._of
            self._watch = OptionalWatch(
                port, kind, None, interval, self._tell, self._turn, labels=self._labels, reduce=self._reduce
            )
        elif not wanted and self._watch is not None:
            self._watch.stop()
            self._watch = None
            self._turn()

    def _tell(self, old: Object | None, new: Object | None) -> None:
        tell(self._changed, old, new)

    def _turn(self) -> None:
        tell(self._turned)
