"""Pairs of connected channels over loopback TLS or plain TCP."""

import asyncio
import contextlib
import datetime
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable

from agent.base.certificates import Pair
from agent.kube.channel import Channel
from hack.lab.sandbox.certificates import Authority

AUTHORITY = Authority("test", datetime.datetime.now(datetime.UTC))
SERVING = AUTHORITY.serving(["localhost", "127.0.0.1"])

Serve = Callable[[Channel], Awaitable[None]]


def server_tls(pair: Pair = SERVING) -> ssl.SSLContext:
    return _with(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair)


def client_tls(pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.pair.certificate.decode())
    return _with(context, pair) if pair is not None else context


def _with(context: ssl.SSLContext, pair: Pair) -> ssl.SSLContext:
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


@contextlib.asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Listen on a port and serve each connection. Fails if a handler failed."""
    tasks: list[asyncio.Task[None]] = []
    channels: list[Channel] = []

    async def run(channel: Channel) -> None:
        try:
            if tls is not None:
                await channel.start_tls(tls, server_side=True)
            await serve(channel)
        finally:
            channel.close()

    def accepted(channel: Channel) -> None:
        channels.append(channel)
        tasks.append(asyncio.ensure_future(run(channel)))

    server = await asyncio.get_running_loop().create_server(lambda: Channel(accepted), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            if not task.done():
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for channel in channels:
            channel.abort()
        # Transports close their sockets in the next round of the event loop.
        await asyncio.sleep(0.01)
        assert [error for error in results if isinstance(error, Exception)] == []


async def dialled(port: int, tls: ssl.SSLContext | None = None) -> Channel:
    _, channel = await asyncio.get_running_loop().create_connection(Channel, "127.0.0.1", port)
    if tls is not None:
        await channel.start_tls(tls, hostname="localhost")
    return channel


async def everything(channel: Channel) -> bytes:
    """Read until the peer closes its side."""
    found = b""
    with contextlib.suppress(OSError):
        while data := await channel.read(1 << 16):
            found += data
    return found
