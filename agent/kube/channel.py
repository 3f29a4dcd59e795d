"""Byte channels over TCP or TLS with flow control, from which streams between two servers are spliced.

A channel is read until it is joined with another one (`splice`); then its input is sent on the other one. asyncio's own
TLS keeps up to 1 MiB of buffers for each connection and cannot close one direction alone.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, cast

from agent.kube.tcp import keep_alive_stream, unsent

_SHARED = memoryview(bytearray(64 * 1024))
"""Receive buffer of all channels: each copies its data before another one receives."""
_TLS_RECORD_BYTES = 16 * 1024
_WRITE_LIMIT = 16 * 1024
"""Bytes that may wait for a slow reader before the sender is paused; one more read may be in flight."""
_UNREAD_LIMIT = 64 * 1024
_FLUSH_SECONDS = 10.0


class ChannelClosed(OSError):
    """The peer has ended its output, or the connection is lost."""


class TooLong(ValueError):
    """The data to read is longer than the limit."""


class Channel(asyncio.BufferedProtocol):
    """A connection, plain until `start_tls`. Calls `accepted` once it is established."""

    def __init__(self, accepted: "Callable[[Channel], None] | None" = None) -> None:
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._handshaken = True
        self._received = bytearray()
        self._other: Channel | None = None
        self._changed = asyncio.Event()
        self._blocked = False
        self._finished = False
        self._eof = False
        self._lost = False
        self._error: Exception | None = None
        self.active = self._loop.time()
        """When bytes last came in, in seconds of the event loop."""

    @property
    def ended(self) -> bool:
        """Nothing more will come in."""
        return self._eof or self._lost

    @property
    def unsent(self) -> int:
        """Bytes that the other side has not taken yet."""
        return 0 if self._transport is None or self._lost else unsent(self._transport)

    @property
    def peer_certificate(self) -> dict[str, Any]:
        """Return the peer's verified certificate as `ssl` decodes it; empty if there is none."""
        return dict(self._tls.getpeercert() or {}) if self._tls is not None else {}

    async def start_tls(
        self, context: ssl.SSLContext, *, server_side: bool = False, hostname: str | None = None
    ) -> None:
        """Go on in TLS. Raises ssl.SSLError for a handshake that fails, ChannelClosed."""
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side, server_hostname=hostname)
        self._handshaken = False
        self._pump(self.take())
        await self._until(lambda: self._handshaken)
        if not self._handshaken:
            raise self._error or ChannelClosed("the connection was closed during the TLS handshake")

    async def read_until(self, separator: bytes, limit: int) -> bytes:
        """Read through the separator. Raises TooLong after `limit` bytes without one, ChannelClosed."""
        searched = 0
        while (found := self._received.find(separator, searched)) < 0:
            if len(self._received) > limit:
                raise TooLong(f"more than {limit} bytes")
            searched = max(0, len(self._received) - len(separator) + 1)
            await self._more()
        end = found + len(separator)
        if end > limit:
            raise TooLong(f"more than {limit} bytes")
        return self._cut(end)

    async def read(self, limit: int) -> bytes:
        """Read available data, at most `limit` bytes; empty at the end. Raises ChannelClosed if the connection
        is lost.
        """
        if not self._received:
            self._resume()
            await self._until(lambda: bool(self._received))
        if not self._received and not self._eof:
            raise self._closed()
        return self._cut(limit)

    def take(self) -> bytes:
        """Return the unread input."""
        return self._cut(len(self._received))

    async def write(self, data: bytes) -> None:
        """Send, and wait while the other side is slow to take it. Raises ChannelClosed."""
        self.send(data)
        await self._until(lambda: not self._blocked)
        # A closing transport accepts everything without a pause: an endless writer would block the event loop.
        if self._lost or self._transport is None or self._transport.is_closing():
            raise ChannelClosed("the connection is lost")

    async def gone(self) -> None:
        """Wait until nothing more will come in."""
        await self._until(lambda: self.ended)

    def send(self, data: bytes) -> None:
        """Send without waiting; nothing happens when the connection is lost."""
        if self._transport is None or self._lost or self._finished or not data:
            return
        if self._tls is None:
            self._transport.write(data)
            return
        encrypted: list[bytes] = []
        try:
            left = memoryview(data)
            while left:
                left = left[self._tls.write(left[:_TLS_RECORD_BYTES]) :]
                encrypted.append(self._outgoing.read())
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._transport.write(b"".join(encrypted))

    def finish(self) -> None:
        """Announce the end of the output."""
        if self._transport is None or self._lost or self._finished:
            return
        self._finished = True
        if self._tls is not None:
            # It has sent its close_notify before it complains that the peer's is missing.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._transport.write(self._outgoing.read())
        else:
            with contextlib.suppress(OSError):
                self._transport.write_eof()

    def close(self) -> None:
        """Send pending output, then close; abort after some seconds if the peer does not take it."""
        if self._transport is None or self._transport.is_closing():
            return
        self.finish()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(_FLUSH_SECONDS, self.abort)

    def abort(self) -> None:
        """Close at once, without sending pending output."""
        if self._transport is not None:
            self._transport.abort()

    def join(self, other: "Channel") -> None:
        """From now on forward input to another channel, no faster than that accepts it."""
        self._other = other
        if self._received:
            other.send(self.take())
        if not other._blocked:
            self._resume()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_LIMIT)
        keep_alive_stream(transport)
        if self._accepted is not None:
            self._accepted(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the event loop."""
        return _SHARED

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop."""
        self.active = self._loop.time()
        if self._tls is None:
            self._deliver(bytes(_SHARED[:nbytes]))
        else:
            self._pump(_SHARED[:nbytes])

    def eof_received(self) -> bool:
        """Called by the event loop."""
        self._eof = True
        self._changed.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._lost = True
        self._error = self._error or exc
        self.resume_writing()

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self._blocked = True

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self._blocked = False
        if self._other is not None:
            self._other._resume()
        self._changed.set()

    def _pump(self, data: bytes | memoryview = b"") -> None:
        """Decrypt received data a record at a time, since a BIO never shrinks."""
        found: list[bytes] = []
        try:
            for start in range(0, max(1, len(data)), _TLS_RECORD_BYTES):
                self._incoming.write(data[start : start + _TLS_RECORD_BYTES])
                self._decrypt(found)
        except ssl.SSLError as error:
            self._flush()
            self._fail(error)
            return
        self._flush()
        if found:
            self._deliver(b"".join(found))
        if self._eof:
            self._changed.set()

    def _decrypt(self, found: list[bytes]) -> None:
        """Take all that can be decrypted. Raises ssl.SSLError."""
        assert self._tls is not None
        try:
            if not self._handshaken:
                self._tls.do_handshake()
                self._handshaken = True
                self._changed.set()
            while data := self._tls.read(_TLS_RECORD_BYTES):
                found.append(data)
            self._eof = True
        except (ssl.SSLWantReadError, ssl.SSLSyscallError):
            return
        except ssl.SSLZeroReturnError:
            self._eof = True

    def _flush(self) -> None:
        if self._transport is not None and self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def _deliver(self, data: bytes) -> None:
        if self._other is not None:
            self._other.send(data)
            if self._other._blocked:
                self._pause()
            return
        self._received += data
        if len(self._received) > _UNREAD_LIMIT:
            self._pause()
        self._changed.set()

    def _cut(self, length: int) -> bytes:
        data = bytes(self._received[:length])
        del self._received[:length]
        return data

    async def _more(self) -> None:
        before = len(self._received)
        self._resume()
        await self._until(lambda: len(self._received) != before)
        if len(self._received) == before:
            raise self._closed()

    def _closed(self) -> ChannelClosed:
        return ChannelClosed(str(self._error) if self._error is not None else "the connection was closed")

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition, or until the connection can no longer make it true."""
        while not condition() and not self._lost and not (self._eof and not self._blocked):
            self._changed.clear()
            await self._changed.wait()

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._lost = True
        if self._transport is not None:
            # With what explains it to the peer: an alert.
            self._transport.close()
        self._changed.set()
