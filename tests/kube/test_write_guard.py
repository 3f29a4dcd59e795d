"""No write is sent after the leader's time is up, however far the request has progressed."""

import asyncio
import datetime
import ssl
from collections.abc import Awaitable, Callable

import pytest

from agent.kube.config import Connection
from agent.kube.errors import Deposed
from agent.kube.session import Session
from agent.kube.write_guard import fence
from hack.lab.sandbox.certificates import Authority
from tests.e2e.laterwebhook import serving

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Term:
    """Term of a leader."""

    def __init__(self) -> None:
        self.leads = True

    def end(self) -> None:
        self.leads = False

    async def sends(self, method: str, send: Callable[[], Awaitable[bytes]]) -> None:
        """Expect that this leader's write is refused."""
        fence(lambda: self.leads)
        with pytest.raises(Deposed):
            await send()
        assert not self.leads, method


class Slow:
    """Credentials that arrive when the leader's time is up, as from a slow plugin."""

    def __init__(self, term: Term) -> None:
        self._term = term

    async def header(self) -> str | None:
        self._term.end()
        return "Bearer late"

    def expire(self) -> None:
        pass


class Server(asyncio.Protocol):
    """Server that answers the first `answers` requests and closes the connection at the next; `heard` records
    all methods."""

    def __init__(self, heard: list[str], term: Term, *, answers: int) -> None:
        self._heard, self._term, self._answers = heard, term, answers
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard.append(data.partition(b" ")[0].decode())
        if len(self._heard) <= self._answers:
            self._transport.write(ANSWER)
        else:
            self._term.end()
            self._transport.abort()


async def listens(protocol: Callable[[], asyncio.Protocol]) -> tuple[asyncio.Server, str]:
    """Start a server. Return it and its address."""
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_credentials_that_took_too_long_are_used_for_nothing_that_writes() -> None:
    term, heard = Term(), list[str]()
    server, address = await listens(lambda: Server(heard, term, answers=9))
    async with server, Session(Connection(f"http://{address}", auth=Slow(term))) as session:
        await term.sends("POST", lambda: session.request("POST", "/api", body=b"{}"))
        assert heard == []
        assert await session.request("GET", "/api") == b"{}"


async def test_a_connection_that_took_too_long_is_used_for_nothing_that_writes() -> None:
    """The API server is slow to accept the connection; by then the guard's check is too old."""
    term, heard = Term(), list[str]()
    authority = Authority("slow", datetime.datetime.now(datetime.UTC))
    tls, loop = serving(authority, "127.0.0.1"), asyncio.get_running_loop()

    class Slowly(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            term.end()
            self._upgrade = loop.create_task(self._encrypted(transport))

        async def _encrypted(self, transport: asyncio.Transport) -> None:
            await loop.start_tls(transport, Server(heard, term, answers=9), tls, server_side=True)

    server, address = await listens(Slowly)
    context = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    async with server, Session(Connection(f"https://{address}", tls=context)) as session:
        await term.sends("PATCH", lambda: session.request("PATCH", "/api", body=b"{}"))
    assert heard == []


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_what_is_sent_again_since_its_connection_had_ended_is_asked_about_again(method: str) -> None:
    term, heard = Term(), list[str]()
    server, address = await listens(lambda: Server(heard, term, answers=1))
    async with server, Session(Connection(f"http://{address}")) as session:
        await session.request("GET", "/api")
        await term.sends(method, lambda: session.request(method, "/api"))
    assert heard == ["GET", method]
