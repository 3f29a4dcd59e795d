"""/metrics of this process: rendered in a thread, at most once in two seconds, for few readers at once."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from agent.base.metrics import REGISTRY

FRESH_SECONDS = 2.0
"""Seconds for which a rendered text is served again."""
AT_ONCE = 8
"""Requests that are answered at once."""
PER_PEER = 4
"""Of these, requests of one IP address, so that one peer cannot take the turns of all others."""
_SEND_SECONDS = 10.0
"""Time in which a reader has to take the text, which is up to some megabytes."""
_TRIES = 5

Refusal = Callable[[], Awaitable[web.Response | None]]
"""Returns the answer for a reader without the right to read metrics, None for others."""


@dataclass(eq=False)
class _Reader:
    """A request for metrics."""

    peer: str
    """IP address of the reader."""
    transport: asyncio.Transport | None
    may_abort: bool = False
    """Whether the text is being sent: ending the request before would not end the check of the reader."""


class Exposition:
    """The metrics of a registry in the format of Prometheus."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._text = b""
        self._rendered = float("-inf")
        self._rendering: asyncio.Task[None] | None = None
        self._readers: list[_Reader] = []
        """Requests under way, oldest first."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Send the metrics; 503 if too many requests are under way."""
        return await self.answer_unless(request, None)

    async def answer_unless(self, request: web.Request, refusal: Refusal | None) -> web.StreamResponse:
        """Send the metrics unless the reader is refused.

        The check of the reader counts as one of the requests at once.
        """
        peer = request.remote or ""
        if not self._make_room(peer):
            text = f"more than {AT_ONCE} requests for metrics at once, or more than {PER_PEER} of {peer}: try again\n"
            return web.Response(status=503, text=text, headers={"Retry-After": f"{FRESH_SECONDS:.0f}"})
        reader = _Reader(peer, request.transport)
        self._readers.append(reader)
        try:
            if refusal is not None and (refused := await refusal()) is not None:
                return refused
            fresh = await self._fresh()
            reader.may_abort = True
            return await self._send(request, fresh)
        finally:
            # Otherwise it was removed in favour of another peer.
            if reader in self._readers:
                self._readers.remove(reader)

    def _make_room(self, peer: str) -> bool:
        """Return whether a request of a peer may be answered now.

        If there are too many, abort the oldest request of the peer with the most, unless this peer would then have as
        many.
        """
        counts = Counter(each.peer for each in self._readers)
        if counts[peer] >= PER_PEER or len(self._readers) < AT_ONCE:
            return counts[peer] < PER_PEER
        most = max(counts.values())
        aborted = next((each for each in self._readers if each.may_abort and counts[each.peer] == most), None)
        if aborted is None or counts[peer] + 1 >= most:
            return False
        self._readers.remove(aborted)
        if aborted.transport is not None:
            aborted.transport.abort()
        return True

    async def _send(self, request: web.Request, text: bytes) -> web.StreamResponse:
        """Send the text, and abort the connection if the reader is too slow."""
        response = web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _fresh(self) -> bytes:
        if time.monotonic() - self._rendered > FRESH_SECONDS:
            if self._rendering is None:
                self._rendering = asyncio.get_running_loop().create_task(self._render())
            # Readers share one rendering, which continues if one of them disconnects.
            await asyncio.shield(self._rendering)
        return self._text

    async def _render(self) -> None:
        try:
            self._text = await asyncio.to_thread(_rendered, self._registry)
            self._rendered = time.monotonic()
        finally:
            self._rendering = None


def _rendered(registry: CollectorRegistry) -> bytes:
    """Render in a thread, and again if the event loop adds to a set or dict while a collector iterates over it."""
    for _ in range(_TRIES):
        with contextlib.suppress(RuntimeError):
            return generate_latest(registry)
    return generate_latest(registry)


EXPOSITION = Exposition()
"""Of the process: wherever it is served, it is rendered once."""
