"""Connections that take nothing with them when they are given up.

What a request has written to a connection, the kernel goes on sending after the request was given up, and after the
process has ended: seen to arrive as soon as a link was back, after the server had been asked what it knows.
"""

import asyncio
import socket
import struct
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.connector import Connection

_AT_ONCE = struct.pack("ii", 1, 0)
_used: ContextVar[asyncio.Transport | None] = ContextVar("used", default=None)
"""The connection that the request of this task is sent on."""


class Connector(aiohttp.TCPConnector):
    """Connections that end with a reset (SO_LINGER), which drops what the server has not received."""

    async def connect(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> Connection:
        """As ever, and note which one it is."""
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        if transport is not None:
            made = transport.get_extra_info("socket")
            if made is not None:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            _used.set(transport)
        return connection


def begin() -> None:
    """A request of this task has no connection yet."""
    _used.set(None)


def give_up() -> None:
    """The request of this task is given up: its connection ends now. In TLS, closing it would wait for the server."""
    transport = _used.get()
    if transport is not None:
        transport.abort()
