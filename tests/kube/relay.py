"""Plain HTTP relay in front of a real API server that loses replies, cuts links and freezes links."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp
from aiohttp import web

from agent.kube.config import Connection

Choice = Callable[[str, str], bool]
"""Selects requests by method and path."""
Own = Callable[[str, str], Awaitable[dict[str, Any] | None]]
"""Returns a Status to answer a request with, by method and path; None to forward the request."""


_CANCEL = {"handler_cancellation": True}
"""Cancel the handler of a request when its client disconnects."""


_TOLD = ("Content-Type", "Retry-After", "X-Kubernetes-Pf-Flowschema-Uid")


async def nothing(method: str, path: str) -> None:
    """Forward every request to the API server."""


class Relay:
    """Relay that forwards everything with the credentials of `upstream` unless a fault is set."""

    def __init__(self, upstream: Connection) -> None:
        self.lose_reply: Choice = lambda method, path: False
        self.err_after: Choice = lambda method, path: False
        """Selects requests that are carried out and then answered with a server error."""
        self.answer: Own = nothing
        """Selects requests that the relay answers without forwarding them."""
        self.requests: list[tuple[str, str]] = []
        self.queries: list[str] = []
        """Queries of the received requests, in the order of `requests`."""
        self._upstream = upstream
        self._open: dict[int, web.Request] = {}
        self._cut = False
        self._seconds = 0.0
        self._frozen: Choice = lambda method, path: False
        self.breaks_watch: Callable[[str], bool] = lambda path: False
        """Selects the paths of future watches that the relay breaks."""
        self._watches_frozen = False
        self._thawed = asyncio.Event()
        self._mute = asyncio.Event()
        self._mute.set()
        self._port = 0

    @property
    def connection(self) -> Connection:
        """Connection to the API server through this relay."""
        return Connection(f"http://127.0.0.1:{self._port}")

    @classmethod
    @asynccontextmanager
    async def started(cls, upstream: Connection) -> AsyncIterator[Self]:
        """Start a relay on a free port."""
        relay = cls(upstream)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as relay._http:
            app = web.Application(client_max_size=1 << 26)
            app.router.add_route("*", "/{path:.*}", relay._forward)
            runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1, **_CANCEL)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                relay._port = runner.addresses[0][1]
                yield relay
            finally:
                relay.cut()
                await runner.cleanup()

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._cut = True
        self.break_streams()

    def mend(self) -> None:
        """Undo `cut` and `freeze` for future requests."""
        self._cut = False
        self._frozen = lambda method, path: False

    def lead_to(self, upstream: Connection) -> None:
        """Forward future requests to another API server."""
        self._upstream = upstream
        self.break_streams()

    def freeze_watches(self) -> None:
        """Leave future watches unanswered until `thaw`."""
        self._watches_frozen = True

    def thaw(self) -> None:
        """Undo `freeze`, including for requests that are already waiting."""
        self._frozen = lambda method, path: False
        self._watches_frozen = False
        self._thawed.set()

    def mute_watches(self) -> None:
        """Hold back the events of open watches until `speak`."""
        self._mute.clear()

    def speak(self) -> None:
        """Undo `mute_watches`."""
        self._mute.set()

    def freeze(self, chosen: Choice = lambda method, path: True) -> None:
        """Leave the selected future requests unanswered."""
        self._frozen = chosen

    def delay(self, seconds: float) -> None:
        """Delay future answers by a number of seconds."""
        self._seconds = seconds

    def break_streams(self) -> int:
        """Break every connection with a request in flight. Return their number."""
        open_now = list(self._open.values())
        for request in open_now:
            _abort(request)
        return len(open_now)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        self.queries.append(request.query_string)
        self._open[id(request)] = request
        try:
            if self._cut or ("watch" in request.query and self.breaks_watch(request.path)):
                return _abort(request)
            if self._frozen(request.method, request.path) or (self._watches_frozen and "watch" in request.query):
                self._thawed.clear()
                await self._thawed.wait()
            await asyncio.sleep(self._seconds)
            status = await self.answer(request.method, request.path)
            return await self._pass_on(request) if status is None else web.json_response(status, status=status["code"])
        finally:
            del self._open[id(request)]

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Content-Length")}
        async with self._http.request(
            request.method,
            self._upstream.server + request.raw_path,
            headers=headers,
            data=await request.read() or None,
            skip_auto_headers=("Content-Type",),
            ssl=self._upstream.tls or True,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            if self.lose_reply(request.method, request.path):
                await answer.read()
                return _abort(request)
            if self.err_after(request.method, request.path):
                await answer.read()
                status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "it has failed"}
                return web.json_response(status, status=500)
            told = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=told)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if "watch" in request.query:
                    await self._mute.wait()
                await response.write(chunk)
            await response.write_eof()
            return response


def _abort(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


def trusting(connection: Connection) -> ssl.SSLContext:
    """Return a TLS context that verifies the server as the connection does, without its client certificate."""
    assert connection.tls is not None
    tls = ssl.create_default_context()
    for certificate in connection.tls.get_ca_certs(binary_form=True):
        tls.load_verify_locations(cadata=certificate)
    return tls
