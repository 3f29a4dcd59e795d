"""/metrics of this process: rendered in a thread, at most once in two seconds, for few readers at once."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from agent.base.metrics import REGISTRY

FRESH_SECONDS = 2.0
"""Time for which a rendered text is served again."""
AT_ONCE = 8
"""Requests that are answered at once."""
PER_PEER = 4
"""Of these, requests of one IP address, so that one peer cannot take the turns of all others."""
_SEND_SECONDS = 10.0
"""Time in which a reader has to take the text, which is up to some megabytes."""
_TRIES = 5

Refusal = Callable[[], Awaitable[web.Response | None]]
"""Returns the answer for a reader without the right to read metrics, None for others."""


class Exposition:
    """The metrics of a registry in the format of Prometheus."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._text = b""
        self._rendered = float("-inf")
        self._rendering: asyncio.Task[None] | None = None
        self._reading: Counter[str] = Counter()
        """Requests under way, by IP address of the reader."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Send the metrics; 503 if too many requests are under way."""
        return await self.answer_unless(request, None)

    async def answer_unless(self, request: web.Request, refusal: Refusal | None) -> web.StreamResponse:
        """Send the metrics unless the reader is refused, which is asked for few readers at once, too."""
        peer = request.remote or ""
        if self._reading.total() >= AT_ONCE or self._reading[peer] >= PER_PEER:
            text = f"more than {AT_ONCE} requests for metrics at once, or more than {PER_PEER} of {peer}: try again\n"
            return web.Response(status=503, text=text, headers={"Retry-After": f"{FRESH_SECONDS:.0f}"})
        self._reading[peer] += 1
        try:
            refused = await refusal() if refusal is not None else None
            return refused or await self._send(request, await self._fresh())
        finally:
            self._reading -= Counter((peer,))

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
            # Readers share one rendering, which goes on if one of them leaves.
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
