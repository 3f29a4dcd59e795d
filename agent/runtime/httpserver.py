"""HTTP server with bounds on the number and age of its connections.

Too many connections: the peer (IP address) with the most loses one. It is one that waits for a request, the oldest
first; so a peer with few connections, such as a kubelet or an API server, is served while another peer opens many.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Coroutine, Iterable
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from agent.base.shares import Shares
from agent.base.sparse_log import SparseFilter, SparseLog

HEAD_SECONDS = 5.0
"""Time for the TLS handshake, and for the head of each request from its first byte on."""
_GRACE_SECONDS = 5.0
"""Time that is left to aiohttp to close an idle connection, and to the peer to take the end of an answer."""
_SWEEP_SECONDS = 1.0
_ACCEPT_PAUSE_SECONDS = 1.0
"""Pause after a connection could not be accepted, as when the process has no file descriptor left."""
HEAD_BYTES = 32 * 1024
"""Longest head of a request: as Python objects it takes three times as much memory."""
_HEAD_END = b"\r\n\r\n"
_READ_BYTES = 16 * 1024
"""aiohttp keeps twice as much of a body that is not read yet."""
_LINGER_SECONDS = 1.0
"""Time for which the rest of a refused body is read and dropped, so that the client gets the answer."""
_CROWDED = 0.75
"""Part of the limit from which on answers say `Connection: close`: clients then reuse no connection that we may cut."""

log = logging.getLogger(__name__)
_of_aiohttp = logging.getLogger(f"{__name__}.aiohttp")
"""aiohttp logs the traceback of each request that it cannot read."""
_of_aiohttp.addFilter(SparseFilter())


class _Connection(asyncio.Protocol):
    """One connection, from `accept` to its end: hands all on to aiohttp's protocol."""

    def __init__(self, server: "HttpServer", peer: str, protocol: asyncio.Protocol) -> None:
        self.peer = peer
        self.busy = 0
        """Requests that are being answered."""
        self.served = False
        """Whether a request has been answered."""
        self.since = asyncio.get_running_loop().time()
        """When it began to wait for a request, to read its head or to answer it; in seconds of the event loop."""
        self.protocol = protocol
        self.head: bytearray | None = bytearray()
        """Head of the request that comes next; None from its end until the request has been read and answered."""
        self._server = server
        self._transport: asyncio.Transport | None = None
        self.handshake: asyncio.Task[None] | None = None

    @property
    def is_established(self) -> bool:
        """Whether the TLS handshake is done, or none was needed."""
        return self._transport is not None

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Sorts connections: the first is the one to close."""
        return self.busy > 0, self.served, self.since

    @property
    def is_idle(self) -> bool:
        """Whether it waits for the first byte of a request, or for the peer to take an answer.

        Go's clients open connections ahead of need, and reuse a connection for up to 90 s.
        """
        return self.served if self.head is None else not self.head

    def begin(self) -> None:
        """Record the start of a request."""
        self.busy += 1
        self.since = asyncio.get_running_loop().time()

    def end(self, request: web.Request) -> None:
        """A request is answered; unless its body has been read, the connection is closed after the answer."""
        self.busy -= 1
        self.served = True
        self.since = asyncio.get_running_loop().time()
        self.head = bytearray() if request.content.is_eof() else None

    def close(self) -> None:
        """Close an idle connection; abort it if it is closing already."""
        if self._transport is None or self._transport.is_closing():
            self.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection off."""
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, after the TLS handshake if there is one."""
        self._transport = cast("asyncio.Transport", transport)
        self.since = asyncio.get_running_loop().time()
        self._server.established(self)
        self.protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self.head is not None:
            if not self.head:
                self.since = asyncio.get_running_loop().time()
            searched = max(0, len(self.head) - len(_HEAD_END) + 1)
            self.head += data[: HEAD_BYTES + 1]
            if self.head.find(_HEAD_END, searched) >= 0:
                self.head = None
            elif len(self.head) > HEAD_BYTES:
                self.abort()
                return
        self.protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Called by the event loop."""
        return self.protocol.eof_received()

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self.protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._server.ended(self)
        self.protocol.connection_lost(exc)


class HttpServer:
    """Serves an aiohttp application. If it requires client certificates, `connections` limits handshakes only."""

    def __init__(
        self,
        app: web.Application,
        name: str,
        *,
        connections: int,
        keepalive: float,
        tls: ssl.SSLContext | None = None,
        shutdown: float = 60.0,
        handler_cancellation: bool = False,
    ) -> None:
        """:param name: for the log

        :param connections: most connections at once
        :param keepalive: seconds for which a connection may be idle after a request
        :param shutdown: seconds for which requests may go on after `stop`
        """
        app.middlewares.insert(0, self._noted)
        app.on_response_prepare.append(self._answered)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_of_aiohttp,
            handle_signals=False,
            handler_cancellation=handler_cancellation,
            keepalive_timeout=keepalive,
            shutdown_timeout=shutdown,
            lingering_time=_LINGER_SECONDS,
            read_bufsize=_READ_BYTES,
        )
        self._name, self._limit = name, connections
        self._keepalive = keepalive
        self._tls = tls
        self._known = tls is not None and tls.verify_mode == ssl.CERT_REQUIRED
        self._shares: Shares[_Connection] = Shares()
        self._connections: dict[object, _Connection] = {}
        """By aiohttp's protocol, which requests name."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: list[socket.socket] = []
        self._refusals = SparseLog(log)

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on listening sockets, which belong to the server from now on."""
        self._sockets = list(sockets)
        await self._runner.setup()
        for listening in self._sockets:
            listening.setblocking(False)
            _ = self._spawn(self._accept(listening))
        _ = self._spawn(self._sweep())

    async def stop(self) -> None:
        """Close the sockets, let requests under way end, close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        await self._runner.cleanup()
        for connection in list(self._connections.values()):
            connection.abort()

    def established(self, connection: _Connection) -> None:
        """Record that the TLS handshake is done, or unnecessary."""
        if self._known:
            self._shares.release(connection.peer, connection)

    def ended(self, connection: _Connection) -> None:
        """The connection is closed; calling it again has no effect."""
        self._shares.release(connection.peer, connection)
        self._connections.pop(connection.protocol, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                made, address = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                self._refusals.warning("%s: no connection can be accepted: %s", self._name, error)
                await asyncio.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            self._admit(made, str(address[0]))
            # If another connection waits, sock_accept does not yield to other tasks.
            await asyncio.sleep(0)

    def _admit(self, made: socket.socket, peer: str) -> None:
        server = self._runner.server
        assert server is not None
        connection = _Connection(self, peer, server())
        self._connections[connection.protocol] = connection
        self._shares.take(peer, connection)
        connection.handshake = self._spawn(self._establish(made, connection))
        # Use a callback: a task that is cancelled before it has begun never runs its end.
        connection.handshake.add_done_callback(lambda _: self._unless_established(made, connection))
        if self._shares.total > self._limit:
            heaviest, held = self._shares.heaviest()
            told = (self._name, self._limit, heaviest, len(held))
            self._refusals.warning("%s: more than %d connections: closing one of %s, which has %d", *told)
            closed = min(held, key=lambda each: each.rank)
            # Release it at once, and not when the event loop reports the closing.
            self._shares.release(closed.peer, closed)
            closed.abort()

    async def _establish(self, made: socket.socket, connection: _Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                made,
                ssl=self._tls,
                ssl_handshake_timeout=HEAD_SECONDS if self._tls else None,
                ssl_shutdown_timeout=_GRACE_SECONDS if self._tls else None,
            )
        except OSError as error:
            log.debug("%s: connection of %s: %s", self._name, connection.peer, error)

    def _unless_established(self, made: socket.socket, connection: _Connection) -> None:
        if not connection.is_established:
            made.close()
            self.ended(connection)

    async def _sweep(self) -> None:
        """Close connections that wait too long for a request, or for the rest of one."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection in list(self._connections.values()):
                patience = self._keepalive + _GRACE_SECONDS if connection.is_idle else HEAD_SECONDS
                if not connection.busy and now - connection.since > patience:
                    connection.close()

    @web.middleware
    async def _noted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: a connection with a request under way is the last to be closed."""
        connection = self._connections.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.begin()
        try:
            return await handler(request)
        finally:
            connection.end(request)

    async def _answered(self, request: web.Request, response: web.StreamResponse) -> None:
        """Signal before the head of an answer, also where aiohttp calls no middleware (`Expect`)."""
        found = self._connections.get(request.protocol)
        is_read = found is None or found.head is not None or (found.busy > 0 and request.content.is_eof())
        if not is_read or self._shares.total > _CROWDED * self._limit:
            response.force_close()
            response.headers["Connection"] = "close"
