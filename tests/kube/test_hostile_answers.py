"""Answers that a correct API server never sends: each becomes one error, in bounded memory and time."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.kinds import CONFIGMAPS
from agent.kube import http_headers
from agent.kube.budget import Budget
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.errors import KubeError, ServerError, StatusError, TooLarge, Unreachable, Unreadable
from agent.kube.http_headers import BadHead
from agent.kube.informer import Informer
from agent.kube.session import Session
from tests.examples import examples
from tests.kube.pretending import KIND, Pretender, chaperon
from tests.kube.test_session import raw_server, serving
from tests.kube.watching import running
from tests.waiting import until

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def endless(status: int = 200) -> tuple[Handler, list[int]]:
    """Send until the client disconnects, and record the number of bytes."""
    sent: list[int] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
                sent.append(65536)
        except ConnectionError:
            return response

    return handler, sent


async def test_an_answer_without_an_end_is_read_up_to_its_limit() -> None:
    handler, sent = endless()
    async with serving(handler) as url, Session(Connection(url)) as session:
        with pytest.raises(TooLarge, match="longer than 1 MiB"):
            await session.request("GET", "/", longest=1 << 20)
        # The outcome of the request is unknown.
        with pytest.raises(Unreachable):
            await session.request("POST", "/", body=b"{}", longest=1 << 20)
    assert sum(sent) < 32 << 20


async def test_of_an_error_without_an_end_the_status_counts() -> None:
    handler, _ = endless(503)
    async with serving(handler) as url, Session(Connection(url)) as session:
        with pytest.raises(ServerError, match="HTTP status 503"):
            await session.request("GET", "/")
        with pytest.raises(ServerError, match="HTTP status 503"):
            await session.stream("/").__aenter__()


async def test_what_is_compressed_is_not_unpacked() -> None:
    async def bomb(request: web.BaseRequest) -> web.Response:
        status = 200 if request.path == "/fine" else 500
        return web.Response(status=status, body=gzip.compress(bytes(10 << 20)), headers={"Content-Encoding": "gzip"})

    async with serving(bomb) as url, Session(Connection(url)) as session:
        with pytest.raises(Unreadable, match="compressed"):
            await session.request("GET", "/fine")
        with pytest.raises(Unreadable, match="compressed"):
            await session.stream("/fine").__aenter__()
        with pytest.raises(ServerError, match="HTTP status 500"):
            await session.request("GET", "/error")


@pytest.mark.parametrize("seconds", ["²", "9" * 5000, "-1", "1e400", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_any_retry_after_is_an_error_of_the_server(seconds: str) -> None:
    async def busy(request: web.BaseRequest) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": seconds})

    async with serving(busy) as url, Session(Connection(url)) as session:
        with pytest.raises(ServerError) as caught:
            await session.request("GET", "/")
    assert caught.value.retry_after in (None, 5.0)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: " + b"9" * 5000,
        b"Content-Length: -1",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 5000 + b"\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello",
        b"X: " + b"y" * 1_000_000,
        b"Content-Type: \xff\xfe\r\nContent-Encoding: \xc2\xb2",
    ],
    ids=["long length", "negative length", "two lengths", "long chunk", "negative chunk", "long header", "no text"],
)
async def test_a_head_that_makes_no_sense_is_no_answer(head: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n{}"
    async with raw_server(answer) as url, Session(Connection(url), timeout=5) as session:
        with pytest.raises(Unreachable) as caught:
            await session.request("GET", "/")
    assert len(str(caught.value)) <= 2048
    assert "\n" not in str(caught.value)


async def test_cookies_are_neither_kept_nor_sent() -> None:
    seen: list[str] = []

    async def baker(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers.get("Cookie", ""))
        return web.Response(text="{}", headers={"Set-Cookie": f"a{len(seen)}=b"})

    async with serving(baker) as url, Session(Connection(url.replace("127.0.0.1", "localhost"))) as session:
        for _ in range(3):
            await session.request("GET", "/")
    assert seen == ["", "", ""]


@given(st.binary(max_size=2000))
@settings(max_examples=examples(50))
async def test_any_bytes_instead_of_an_answer_give_an_answer_or_one_of_our_errors(data: bytes) -> None:
    async with raw_server(b"HTTP/1.1 200 OK\r\n" + data) as url, Session(Connection(url), timeout=5) as session:
        try:
            await Client(session).list(CONFIGMAPS)
        except KubeError:
            return


async def test_of_pages_that_are_too_large_smaller_ones_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.kube.client.PAGE_LIMIT", 2 << 20)
    async with Pretender.started() as server:
        server.items = [chaperon(f"c{number}", number + 1) for number in range(1200)]
        for number in range(600, 650):
            server.items[number] = chaperon(f"c{number}", number + 1, b',"spec":{"x":"%s"}' % (b"y" * 100_000))
        _, items = await server.client.list_raw(KIND)
        assert len(items) == 1200
        assert "50" in server.lists or "5" in server.lists
        assert len(server.lists) < 60
        server.items[700] = chaperon("c700", 701, b',"spec":{"x":"%s"}' % (b"y" * (3 << 20)))
        with pytest.raises(TooLarge, match="longer than 2 MiB"):
            await server.client.list_raw(KIND)


async def test_of_a_cluster_that_lists_without_end_only_so_much_is_kept() -> None:
    async with Pretender.started() as server:
        server.items = [chaperon(f"c{number}", number + 1) for number in range(1000)]
        budget = Budget(300_000)
        informer = Informer(server.client, KIND, budget=budget)
        gone: list[str] = []
        informer.subscribe(lambda old, new: gone.append(old.name) if old is not None and new is None else None)
        async with running(informer):
            kept = {obj.name for obj in informer.store}
            assert 0 < len(kept) < 200
            assert 300_000 < informer.store.size == budget.used < 303_000
            assert "more objects in its cluster than are kept" in informer.flaws.told()
            server.tell("MODIFIED", chaperon("c0", 2000, b',"spec":{"nodeName":"n"}'))
            server.tell("DELETED", chaperon("c1", 2001))
            server.tell("DELETED", chaperon("c999", 2002))
            server.tell("BOOKMARK", chaperon("c998", 2003))
            await until(lambda: gone == ["c1"])
            assert informer.store.size == budget.used < 303_000
            assert informer.store.get(("default", "c0")).node_name == "n"  # type: ignore[union-attr]


@given(st.text(max_size=30) | st.just("9" * 5000))
def test_a_header_that_is_no_number_is_refused(text: str) -> None:
    try:
        assert http_headers.number(text) >= 0
    except BadHead:
        assert not (text.isascii() and text.isdigit() and len(text) < 19)


@given(st.binary(max_size=30) | st.just(b"f" * 5000 + b"\r\n"))
def test_a_chunk_has_a_size_or_is_refused(line: bytes) -> None:
    try:
        assert http_headers.chunk_size(line) >= 0
    except BadHead:
        return
    assert http_headers.chunk_size(b"1f;name=value\r\n") == 31


async def test_of_large_answers_only_so_many_are_received_at_once() -> None:
    started: list[int] = []
    go_on = asyncio.Event()

    async def large(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"[" + b" " * (1 << 20))
        started.append(1)
        await go_on.wait()
        await response.write(b"]")
        return response

    async with serving(large) as url, Session(Connection(url), timeout=20) as session:
        asking = [asyncio.create_task(session.request("GET", "/")) for _ in range(8)]
        await until(lambda: len(started) == 8)
        await until(lambda: session._large_answers.locked())
        go_on.set()
        assert {len(answer) for answer in await asyncio.gather(*asking)} == {(1 << 20) + 2}
        assert not session._large_answers.locked()


def test_errors_that_are_none_stay_apart() -> None:
    assert not issubclass(StatusError, Unreachable)
    assert issubclass(TooLarge, Unreadable)
    assert issubclass(Unreadable, Unreachable)
