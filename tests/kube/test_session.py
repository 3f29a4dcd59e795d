"""Sessions with servers that misbehave; test_client.py uses a real API server."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from agent.api.kinds import CONFIGMAPS
from agent.base import certificates
from agent.base.certificates import Pair
from agent.kube.client import Client
from agent.kube.config import Connection, FileAuth, parse
from agent.kube.errors import (
    InvalidConfig,
    ServerError,
    StatusError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unsent,
)
from agent.kube.session import Session
from tests.kube.kubeconfigs import data, kubeconfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler, access_log=None), handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def serving_tls(handler: Handler, pair: Pair) -> AsyncIterator[int]:
    """Serve HTTPS with a certificate. Yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair.load(context)
    runner = web.ServerRunner(web.Server(handler, access_log=None), handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def of_kubeconfig(port: int, authority: Pair, **cluster: Any) -> Connection:
    """Return the connection of a kubeconfig as a Target has it: with a CA and a token."""
    given = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data(authority.certificate)}
    return parse(kubeconfig(cluster={**given, **cluster}))


CA, OTHER = (certificates.authority("flotilla-test-ca", datetime.now(UTC), timedelta(days=1)) for _ in range(2))


@pytest.mark.parametrize(
    ("names", "authority", "cluster", "why"),
    [
        pytest.param(["127.0.0.1"], CA, {}, "", id="the certificate that is expected"),
        pytest.param(["127.0.0.1"], OTHER, {}, "CERTIFICATE_VERIFY_FAILED", id="of another CA of the same name"),
        pytest.param(["10.0.0.1"], CA, {}, "IP address mismatch", id="for another address"),
        pytest.param(["kubernetes"], CA, {"tls-server-name": "kubernetes"}, "", id="for the name that is expected"),
        pytest.param(["other"], CA, {"tls-server-name": "kubernetes"}, "Hostname mismatch", id="for another name"),
        pytest.param(["127.0.0.1"], CA, {"tls-server-name": "kubernetes"}, "Hostname mismatch", id="for the address"),
    ],
)
async def test_neither_request_nor_token_reaches_a_server_whose_certificate_is_not_that_of_the_kubeconfig(
    names: list[str], authority: Pair, cluster: dict[str, Any], why: str
) -> None:
    server = Counting(200, 0)
    pair = certificates.issue(CA, names, datetime.now(UTC), timedelta(hours=1))
    async with (
        serving_tls(server, pair) as port,
        Session(of_kubeconfig(port, authority, **cluster), timeout=5) as session,
    ):
        if not why:
            assert await session.request("GET", "/api") == b"{}"
            assert server.seen == ["Bearer t0ken"]
            return
        with pytest.raises(Unreachable, match=why):
            await session.request("GET", "/api")
        with pytest.raises(Unreachable, match=why):
            async with session.stream("/api"):
                pass
    assert server.seen == []


@contextlib.asynccontextmanager
async def raw_server(answer: bytes | None) -> AsyncIterator[str]:
    """TCP server that answers each connection with `answer` and closes it; None never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if answer is not None:
            await reader.read(1)
            writer.write(answer)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.close()
        server.close()
        await server.wait_closed()


async def test_a_server_that_never_answers_costs_the_timeout_and_no_more() -> None:
    async with raw_server(None) as url, Session(Connection(url), timeout=0.1) as session:
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
            await session.request("GET", "/api")
        with pytest.raises(Unreachable, match=r"no answer within 0\.05 s"):
            await session.request("GET", "/api", timeout=0.05)


async def test_a_request_that_may_have_arrived_does_not_count_as_unsent() -> None:
    async with raw_server(None) as url, Session(Connection(url), timeout=0.1) as session:
        with pytest.raises(Unreachable) as caught:
            await session.request("POST", "/api", body=b"{}")
    assert not isinstance(caught.value, Unsent)


async def test_a_refused_connection_means_that_nothing_was_sent() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        async with Session(Connection(url)) as session:
            with pytest.raises(Unsent, match=r"[Cc]onnect"):
                await session.request("POST", "/api", body=b"{}")


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"],
    ids=["hangs up", "another protocol", "breaks off"],
)
async def test_an_answer_that_is_none_is_no_answer(answer: bytes) -> None:
    async with raw_server(answer) as url, Session(Connection(url), timeout=2) as session:
        with pytest.raises(Unreachable):
            await session.request("GET", "/api")


async def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    async with Session(Connection("https://nowhere.invalid")) as session:
        with pytest.raises(Unreachable):
            await session.request("GET", "/api")


async def test_a_login_page_is_told_apart_from_an_api_server() -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>log in</html>")

    async with serving(page) as url, Session(Connection(url)) as session:
        with pytest.raises(Unreachable, match="no Kubernetes API server"):
            await Client(session).list(CONFIGMAPS)
        with pytest.raises(Unreachable, match="no Kubernetes API server"):
            await Client(session).get(CONFIGMAPS, "a", "default")


async def test_redirects_are_not_followed_with_our_credentials() -> None:
    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")

    async with serving(elsewhere) as url, Session(Connection(url)) as session:
        with pytest.raises(StatusError, match="HTTP status 302"):
            await session.request("GET", "/api")


class Counting:
    """Server that refuses some requests, then accepts."""

    def __init__(self, status: int, refusals: int, headers: dict[str, str] | None = None) -> None:
        self.left = refusals
        self.seen: list[str | None] = []
        self._status = status
        self._headers = headers or {}

    async def __call__(self, request: web.Request) -> web.Response:
        self.seen.append(request.headers.get("Authorization"))
        self.left -= 1
        if self.left >= 0:
            return web.Response(status=self._status, headers=self._headers)
        return web.Response(text="{}")


async def test_429_is_answered_by_waiting_and_trying_again() -> None:
    server = Counting(429, 1, {"Retry-After": "1"})
    async with serving(server) as url, Session(Connection(url)) as session:
        started = asyncio.get_running_loop().time()
        assert await session.request("GET", "/api") == b"{}"
        assert asyncio.get_running_loop().time() - started >= 1
    assert len(server.seen) == 2


async def test_a_server_that_stays_too_busy_is_told_after_four_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.kube.session._RETRY_AFTER_CAP", 0.01)
    server = Counting(429, 100, {"Retry-After": "3600"})
    async with serving(server) as url, Session(Connection(url)) as session:
        with pytest.raises(TooManyRequests):
            await session.request("GET", "/api")
    assert len(server.seen) == 4


async def test_401_is_tried_once_more_with_the_token_that_was_rotated_meanwhile(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    server = Counting(401, 1)
    async with serving(server) as url, Session(Connection(url, auth=FileAuth(token))) as session:
        await session.connection.auth.header()
        token.write_text("new")
        assert await session.request("GET", "/api") == b"{}"
    assert server.seen == ["Bearer old", "Bearer new"]


async def test_wrong_credentials_are_told_after_the_second_try() -> None:
    server = Counting(401, 100)
    async with serving(server) as url, Session(Connection(url)) as session:
        with pytest.raises(Unauthorized):
            await session.request("GET", "/api")
    assert len(server.seen) == 2


async def test_errors_of_the_server_are_not_repeated_by_the_session() -> None:
    server = Counting(503, 100)
    async with serving(server) as url, Session(Connection(url)) as session:
        with pytest.raises(ServerError):
            await session.request("POST", "/api", body=b"{}")
    assert len(server.seen) == 1


async def test_no_more_requests_are_under_way_than_the_limit_allows() -> None:
    under_way = most = 0

    async def slow(request: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return web.Response(text="{}")

    async with serving(slow) as url, Session(Connection(url), limit=3) as session:
        await asyncio.gather(*(session.request("GET", "/api") for _ in range(12)))
    assert most == 3


async def test_a_watch_of_a_silent_server_ends_after_the_idle_time() -> None:
    async with raw_server(None) as url, Session(Connection(url)) as session:
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
            await session.stream("/api", idle=0.1).__aenter__()


async def test_lines_of_a_watch_come_whole_and_an_unfinished_one_is_left_out() -> None:
    async def events(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b'{"a"', b":1}\n", b'{"b":', b"2}\n{", b'"c"'):
            await response.write(part)
            await asyncio.sleep(0.001)
        await response.write_eof()
        return response

    async with serving(events) as url, Session(Connection(url)) as session, session.stream("/api") as stream:
        assert [line async for line in stream] == [b'{"a":1}\n', b'{"b":2}\n']


async def read_all(session: Session) -> None:
    async with session.stream("/api") as stream:
        async for _ in stream:
            pass


async def test_an_event_without_an_end_ends_the_watch_rather_than_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent.kube.incoming.LINE_LIMIT", 1 << 12)
    monkeypatch.setattr("agent.kube.incoming._HOPELESS", 1 << 16)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * 4096)
        return response

    async with serving(endless) as url, Session(Connection(url)) as session:
        with pytest.raises(Unreachable, match="no end"):
            await read_all(session)


async def test_credentials_that_cannot_be_had_are_an_error_of_the_configuration(tmp_path: Any) -> None:
    async with Session(Connection("http://127.0.0.1:1", auth=FileAuth(tmp_path / "gone"))) as session:
        with pytest.raises(InvalidConfig):
            await session.request("GET", "/api")


async def test_a_large_body_is_sent_whole() -> None:
    received: list[int] = []

    async def count(request: web.BaseRequest) -> web.Response:
        received.append(len(await request.content.read()))
        return web.Response(text="{}")

    async with serving(count) as url, Session(Connection(url)) as session:
        for size in (1, 1 << 20, (1 << 20) + 1, 3 << 20):
            await session.request("POST", "/", body=b"x" * size)
            assert received[-1] == size


async def test_what_a_server_has_not_received_when_a_request_is_given_up_never_arrives() -> None:
    """Simulates a link that is cut and returns later: the kernel would continue to send its buffered data."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        # The buffer is too small for the request.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = b"x" * 500_000
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        async with Session(Connection(url), timeout=0.2) as session:
            with pytest.raises(Unreachable):
                await session.request("POST", "/api", body=body)
            # The connection ends in the next turn of the event loop; a thread may be faster.
            await asyncio.sleep(0)
            received = await asyncio.to_thread(_read_to_the_end, server)
    assert 0 < received < len(body)


def _read_to_the_end(server: socket.socket) -> int:
    """Return the number of bytes that a connection delivers."""
    accepted, _ = server.accept()
    received = 0
    with accepted, contextlib.suppress(ConnectionResetError):
        accepted.settimeout(10)
        while data := accepted.recv(65536):
            received += len(data)
    return received
