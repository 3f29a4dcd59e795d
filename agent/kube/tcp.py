"""TCP settings for HTTP: detect peers that vanish silently, and send nothing more on abandoned connections."""

import asyncio
import fcntl
import socket
import struct
import termios
from contextvars import ContextVar
from typing import Any, NamedTuple

import aiohttp
from aiohttp.connector import Connection

from agent.kube import write_guard
from agent.kube.errors import Deposed


class Patience(NamedTuple):
    """Seconds of silence before the first probe, seconds between probes, and number of probes without an answer.

    The connection also ends if the peer leaves data unacknowledged for `unacknowledged` seconds; 0: the system's
    default (15 minutes). That also disconnects a live peer that reads nothing for so long.
    """

    idle: int
    interval: int
    probes: int
    unacknowledged: int = 0


REQUESTS = Patience(6, 3, 3, 15)
"""For requests and watches: a loss shows within 15 s. API servers always read."""
STREAMS = Patience(30, 10, 3)
"""For logs, exec and port-forward: a loss shows within a minute. A client that pauses may read nothing for hours."""

_IDLE = getattr(socket, "TCP_KEEPIDLE", None)
_UNACKNOWLEDGED = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Neither is to be had on macOS, where the command line may run."""
_INT = struct.Struct("i")
_AT_ONCE = struct.pack("ii", 1, 0)
_used: ContextVar[asyncio.Transport | None] = ContextVar("used", default=None)
"""The connection that the request of this task is sent on."""


def connected_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket for requests to an address, as `getaddrinfo` gives it."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    keep_alive(made, REQUESTS)
    return made


def keep_alive_stream(transport: asyncio.BaseTransport) -> None:
    """Switch it on for a connection that streams."""
    made = transport.get_extra_info("socket")
    if made is not None:
        keep_alive(made, STREAMS)


def keep_alive(made: socket.socket, patience: Patience) -> None:
    """Enable keepalive for a TCP socket; leave other sockets unchanged."""
    if made.family not in (socket.AF_INET, socket.AF_INET6):
        return
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = [(_IDLE, patience.idle), (socket.TCP_KEEPINTVL, patience.interval), (socket.TCP_KEEPCNT, patience.probes)]
    if patience.unacknowledged:
        options.append((_UNACKNOWLEDGED, 1000 * patience.unacknowledged))
    for option, value in options:
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)


class Connector(aiohttp.TCPConnector):
    """Connections that end with a reset (SO_LINGER), which drops data that the server has not received.

    Otherwise the kernel keeps sending a request's data after the request was aborted, even after the process has ended.
    Observed: such data arrived once a link recovered, after the server's state had been read.
    """

    async def connect(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> Connection:
        """Connect, and record the connection. Raises Deposed if the sender's leadership has ended by then."""
        connection = await super().connect(req, traces, timeout)
        try:
            write_guard.check(req.method)
        except Deposed:
            connection.release()
            raise
        transport = connection.transport
        if transport is not None:
            made = transport.get_extra_info("socket")
            if made is not None:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            _used.set(transport)
        return connection


def begin_request() -> None:
    """A request of this task has no connection yet."""
    _used.set(None)


def give_up_request() -> None:
    """The request of this task is given up: its connection ends now. In TLS, closing it would wait for the server."""
    transport = _used.get()
    if transport is not None:
        transport.abort()


def unsent(transport: asyncio.WriteTransport) -> int:
    """Bytes that were written to an open connection and that the peer's kernel has not acknowledged."""
    number = transport.get_extra_info("socket").fileno()
    (waiting,) = _INT.unpack(fcntl.ioctl(number, termios.TIOCOUTQ, bytes(_INT.size)))
    return int(waiting) + transport.get_write_buffer_size()
