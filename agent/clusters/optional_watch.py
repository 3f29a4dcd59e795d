"""Optional watch: of a kind that an API server may not serve, or may not let the agent read. It is retried
regularly.
"""

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
"""Seconds for which the store stays valid although reads are forbidden.

An API server that has just started forbids everything until it has read its roles.
"""
_LOOK_SECONDS = 1.0

_REFUSALS = (Forbidden, NotFound)
"""Errors that persist for a while. Others, for example of an overloaded server, prove nothing about the kind."""


class OptionalWatch:
    """Watch of a kind that may be unreadable: `store` is None meanwhile.

    Calls `changed` for every change of an object, as an informer does, and `turned` when the store becomes available
    or unavailable. Calls `changed` for all objects of a store that has become available. With `any_version` it watches
    the newest served version, whichever version the kind names.
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
        """Time since when a kind that could be read is forbidden; None if it is not."""
        self._again = asyncio.Event()
        self._stops: tuple[Callable[[], None], ...] = ()
        self._cancel = port.spawn(f"discover {kind}", self._run)

    @property
    def store(self) -> Store | None:
        """All objects of the kind; None until they have been read."""
        return self._informer.store if self._informer is not None and self._listed else None

    @property
    def kind(self) -> Kind:
        """The kind in the watched version."""
        return self._kind

    def absorb(self, raw: bytes) -> Object | None:
        """Update the store from the response to a write by this agent. Raises Unreadable."""
        return self._informer.absorb(raw) if self._informer is not None else None

    @property
    def refusal(self) -> str:
        """The API server's reason why the kind is not watched; empty while it is, or before the first try."""
        return self._refusal

    @property
    def is_withheld(self) -> bool:
        """Whether a kind that could be read before is forbidden now."""
        return self._forbidden_since is not None

    def look(self) -> None:
        """Try at once whether the kind is now served, unless it is watched already."""
        if self._informer is None:
            self._again.set()

    def stop(self) -> None:
        """Stop the watch and discard its store."""
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
                        # Reading is permitted again, but the kind is no longer served.
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
                        # The informer was already in use and may be in a long backoff.
                        informer.interrupt()
                    self._stops = informer.subscribe(self._forward), informer.on_failure(self._again.set)
            try:
                async with asyncio.timeout(pause):
                    await self._news()
            except TimeoutError:
                pass
            self._again.clear()

    async def _ask(self) -> None:
        """Check the right to list the kind. Raises NotFound if it is not served, Forbidden if it may not be listed."""
        if self._any_version:
            self._kind = await self._port.newest(self._kind) or self._kind
        await self._port.try_list(self._kind, self._namespace)

    def _is_refused(self) -> bool:
        """Return whether the watched kind can no longer be read."""
        error = self._informer.error if self._informer is not None else None
        if not isinstance(error, Forbidden):
            if self._informer is not None:
                self._forbidden_since = None
        elif self._forbidden_since is None and self._listed:
            self._forbidden_since = asyncio.get_running_loop().time()
        return isinstance(error, _REFUSALS)

    def _forbidden_for(self) -> float:
        """Return the seconds since the kind could last be read; infinite if it never could."""
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
        """Forward events only while `store` exists: subscribers reset their state when it becomes unavailable."""
        if self._listed:
            self._changed(old, new)

    def _refused(self, reason: str) -> None:
        """Log a refusal once, until its reason changes."""
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
    """Shared optional watch of one kind; `store` is None while the kind cannot be read."""

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
        """All objects of the kind; None while it cannot be read."""
        return self._watch.store if self._watch is not None else None

    @property
    def refusal(self) -> str:
        """The API server's reason why `store` is None."""
        return self._watch.refusal if self._watch is not None else ""

    @property
    def is_withheld(self) -> bool:
        """Whether a kind that could be read before is forbidden now."""
        return self._watch is not None and self._watch.is_withheld

    def find(self, index: str, function: IndexFunction, value: str) -> list[Object]:
        """Return the objects with an index value, empty without a store. The index is created at its first use."""
        store = self.store
        if store is None:
            return []
        store.index(index, function)
        return store.by_index(index, value)

    def subscribe(self, changed: Subscriber, turned: Callable[[], None]) -> None:
        """Register a listener for every change of an object, and one for a store that becomes available or
        unavailable.
        """
        self._changed.append(changed)
        self._turned.append(turned)
        for obj in self.store or ():
            changed(None, obj)

    def absorb(self, raw: bytes) -> None:
        """Update the store from the response to a write by this agent. Raises Unreadable."""
        if self._watch is not None:
            self._watch.absorb(raw)

    def wanted(self, wanted: bool) -> None:
        """Start or stop the watch."""
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
