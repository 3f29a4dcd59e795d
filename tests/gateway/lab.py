"""Two clusters' gateways on loopback, with clients and pods."""

import asyncio
import contextlib
import ipaddress
import itertools
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from agent.base.certificates import Pair
from agent.model import hostport
from agent.model.gatewaypeer import Called, Offered, Peer, Service
from hack.lab.sandbox.gateways import PORT, GatewayPod

SPACE = "shop"
WEB = "web"
LOCAL = 20000
"""Port at which `a` listens for the port of the Service `web` of `b`."""
UNUSED = 20001

_FIRST_ADDRESS = ipaddress.IPv4Address("127.64.0.0")
_numbers = itertools.count()

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def address() -> str:
    """Return an unused loopback address, unique among concurrent tests: four for each process."""
    return str(_FIRST_ADDRESS + 4 * (os.getpid() % 2**21) + next(_numbers) % 4)


def peer(of: GatewayPod, *, calls: bool = False, offered: bool = False, name: str = "", ca: str = "") -> Peer:
    """Return a gateway as its peers observe it."""
    return Peer(
        name or of.uid,
        SPACE,
        of.uid,
        ca or of.ca,
        (of.at,),
        (Called(WEB, 80, (LOCAL,)),) if calls else (),
        (Offered(WEB, 80),) if offered else (),
    )


def web(*endpoints: str) -> Service:
    """Return the Service `web` with ready endpoints."""
    return Service(SPACE, WEB, 80, endpoints)


@contextlib.asynccontextmanager
async def serving(handler: Handler, host: str) -> AsyncIterator[str]:
    """Run a pod of a Service. Yields its address."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(handled, host, 0)
    async with server:
        yield hostport.join(host, server.sockets[0].getsockname()[1])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo until the peer closes its side."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


def saying(name: str) -> Handler:
    """Run a pod that answers any input with its name."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(65536):
            writer.write(name.encode())
            await writer.drain()

    return answer


async def ask(host: str, port: int, text: bytes, tls: ssl.SSLContext | None = None, name: str | None = None) -> bytes:
    """Send data and close the sending side. Return the whole answer; empty if the connection is refused."""
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
            try:
                writer.write(text)
                await writer.drain()
                if writer.can_write_eof():
                    writer.write_eof()
                    return await reader.read()
                return await reader.readexactly(len(text))
            finally:
                writer.close()
    except (OSError, asyncio.IncompleteReadError):
        return b""


def stranger(pair: Pair | None, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts any certificate of a gateway."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if pair is not None:
        pair.load(context)
    return context


async def dial(gateway: GatewayPod, name: str, pair: Pair | None) -> bytes:
    """Dial a gateway by a server name and return its answer."""
    return await ask(gateway.address, PORT, b"hello", stranger(pair), name)
