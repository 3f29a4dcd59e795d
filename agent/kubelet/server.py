"""Connections to the kubelet API: TLS, sequential requests, authorization, and answers.

Clients that reach the port must not exhaust the process: the number and time of unauthenticated connections are
limited. Above the limit the oldest one is closed.
"""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterator

from agent.kube import http_headers
from agent.kube.channel import Channel, ChannelClosed, TooLong
from agent.kube.errors import KubeError
from agent.kubelet.access import Authorizer
from agent.kubelet.identity import Authenticator
from agent.kubelet.requests import Request, Unacceptable, parse
from agent.kubelet.routes import Route, attributes, route

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 10.0
IDLE_SECONDS = 120.0
"""Seconds that a connection waits for another request, or for an answer to be taken; API servers wait 90 s."""
UNKNOWN_LIMIT = 256
"""Connections of whom nothing is known yet."""
KNOWN_HEAD_BYTES = 1024 * 1024
"""Limit of Go's servers: a command of exec is part of the URL."""
UNKNOWN_HEAD_BYTES = 64 * 1024
"""Without a client certificate."""
TRIES = 2_000
"""Ports that are tried."""
_BACKLOG = 512

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}

Page = tuple[str, bytes]
"""Content type and body."""

Handler = Callable[[str, Channel, Request, Route], Awaitable[Page | None]]
"""Answers an authorised request to a node: with a page, or with None when it has used the connection up itself."""


class Server:
    """Serves connections of all virtual nodes; a changed `tls` applies to new connections."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, handler: Handler) -> None:
        self.tls: ssl.SSLContext | None = None
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._handler = handler
        self._group: asyncio.TaskGroup | None = None
        self._unknown: dict[Channel, None] = {}

    async def run(self) -> None:
        """Serve what `accept` brings until cancelled; then all connections are cut off."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def accept(self, node: str) -> Callable[[], Channel]:
        """Makes the protocol of each connection to a node."""

        def accepted(channel: Channel) -> None:
            if self._group is None or self.tls is None:
                channel.abort()
                return
            self._unknown[channel] = None
            if len(self._unknown) > UNKNOWN_LIMIT:
                oldest = next(iter(self._unknown))
                del self._unknown[oldest]
                oldest.abort()
            task = self._group.create_task(self._serve(node, channel, self.tls), name=f"kubelet/{node}")
            # Use a callback: a task that is cancelled before it has begun never runs its end.
            task.add_done_callback(lambda done: self._served(channel, done))

        return lambda: Channel(accepted)

    def _served(self, channel: Channel, done: asyncio.Task[None]) -> None:
        self._unknown.pop(channel, None)
        if done.cancelled():
            channel.abort()
        else:
            channel.close()

    async def _serve(self, node: str, channel: Channel, tls: ssl.SSLContext) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await channel.start_tls(tls, server_side=True)
            while await self._next(node, channel):
                pass
        except (OSError, TimeoutError) as error:
            log.debug("connection to node %s: %s", node, error)
        except Exception:
            log.exception("a connection to node %s failed unexpectedly", node)

    async def _next(self, node: str, channel: Channel) -> bool:
        """Answer one request; return whether another may follow."""
        known = channel not in self._unknown
        limit = KNOWN_HEAD_BYTES if channel.peer_certificate else UNKNOWN_HEAD_BYTES
        try:
            async with asyncio.timeout(IDLE_SECONDS if known else HEAD_SECONDS):
                head = await channel.read_until(http_headers.END, limit)
        except TooLong:
            await _error(channel, Unacceptable(431, "the head of the request is too long"), keep=False)
            return False
        keep = False
        try:
            request = parse(head)
            page = await self._answer(node, channel, request)
            if page is None:
                return False
            keep = request.keep_alive
            async with asyncio.timeout(IDLE_SECONDS):
                await _page(channel, 200, page, keep=keep)
        except Unacceptable as error:
            await _error(channel, error, keep=False)
            return False
        return keep

    async def _answer(self, node: str, channel: Channel, request: Request) -> Page | None:
        await self._let_in(node, channel, request)
        try:
            return await self._handler(node, channel, request, route(request))
        except KubeError as error:
            log.warning("request to node %s: %s", node, error)
            raise Unacceptable(500, f"this cluster's API server: {error}") from error

    async def _let_in(self, node: str, channel: Channel, request: Request) -> None:
        """Raise Unacceptable unless the user is authenticated and has the right to this request."""
        try:
            user = await self._authenticator.user(channel.peer_certificate, request.headers)
        except KubeError as error:
            log.warning("a token cannot be reviewed: %s", error)
            user = None
        if user is None:
            raise Unacceptable(401, "Unauthorized")
        self._unknown.pop(channel, None)
        wanted = attributes(request)
        rights = f"user={user.name}, verb={wanted.verb}, resource=nodes, subresource(s)={list(wanted.subresources)}"
        try:
            allowed = await self._authorizer.allows(user, node, wanted)
        except KubeError as error:
            log.warning("node %s: rights cannot be reviewed (%s): %s", node, rights, error)
            raise Unacceptable(500, f"Authorization error ({rights})") from error
        if not allowed:
            raise Unacceptable(403, f"Forbidden ({rights})")


async def _error(channel: Channel, error: Unacceptable, *, keep: bool) -> None:
    text = ("text/plain; charset=utf-8", str(error).encode())
    try:
        await _page(channel, error.status, text, keep=keep)
    except ChannelClosed:
        return


async def _page(channel: Channel, status: int, page: Page, *, keep: bool) -> None:
    content_type, body = page
    headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
    if not keep:
        headers.append(("Connection", "close"))
    await channel.write(http_headers.render(f"HTTP/1.1 {status} {_REASONS[status]}", headers) + body)


def bind(address: str, first: int, preferred: int | None, avoid: Collection[int]) -> socket.socket | None:
    """Bind a separate port for a virtual node. Ports used by other agents on the host are skipped.

    Returns a listening socket on all addresses of this host, of the family of `address`; None when no port is free.

    :param preferred: the port that the node has announced; if it is taken, the next free one from `first` up
    :param avoid: ports of other virtual nodes
    """
    version = ipaddress.ip_address(address).version
    for port in candidates(first, preferred, avoid):
        with contextlib.suppress(_Taken):
            return _listen(version, port)
    return None


class _Taken(Exception):
    pass


def candidates(first: int, preferred: int | None, avoid: Collection[int]) -> Iterator[int]:
    """Yield ports in the order in which they are tried."""
    end = min(first + TRIES, 65536)
    # A port below the first comes from an earlier setting.
    if preferred is not None and first <= preferred < end and preferred not in avoid:
        yield preferred
    for port in range(first, end):
        if port != preferred and port not in avoid:
            yield port


def _listen(version: int, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setblocking(False)
        made.bind(("::" if version == 6 else "0.0.0.0", port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise _Taken from error
        raise
    return made
