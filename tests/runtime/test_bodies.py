"""Request bodies: the estimate of their memory, and the order of their answers."""

import asyncio
import contextlib
import socket
import tracemalloc
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
from aiohttp import web

from agent.runtime import bodies
from agent.runtime.bodies import Bodies, decoded_size
from agent.runtime.httpserver import HttpServer
from tests.waiting import until

LENGTH = 300_000
KIB = 1024


def repeated(value: bytes) -> bytes:
    """Return a list of `LENGTH` bytes that repeats a value."""
    return b"[" + b",".join([value] * (LENGTH // (len(value) + 1))) + b"]"


def text(last: str) -> bytes:
    """Return a list of one long string with this end."""
    return f'["{"x" * LENGTH}{last}"]'.encode()


DOCUMENTS = {
    "a long string": text(""),
    "a long string with an emoji": text("😀"),
    "a long string with an escaped emoji": text(r"\ud83d\ude00"),
    "a long string with an escaped Chinese character": text(r"\u4e2d"),
    "short strings with an emoji": repeated('"😀"'.encode()),
    "empty lists": repeated(b"[]"),
    "lists in lists": repeated(b"[[[[]]]]"),
    "empty objects": repeated(b"{}"),
    "objects with one field": repeated(b'{"a":1}'),
    "objects in objects": repeated(b'{"a":{"a":{"a":{"a":{}}}}}'),
    "variables": repeated(b'{"name":"ABCDEFGHIJ","value":"abcdefghij"}'),
    "strings": repeated(b'"abcdefghij"'),
    "numbers": repeated(b"1.5"),
    "an object with many fields": msgspec.json.encode({f"k{i}": f"v{i}" for i in range(LENGTH // 16)}),
}


@pytest.mark.parametrize("content", DOCUMENTS)
def test_a_body_is_estimated_at_no_less_memory_than_it_takes(content: str) -> None:
    document = DOCUMENTS[content]
    tracemalloc.start()
    try:
        decoded = msgspec.json.decode(document)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded
    assert len(document) + taken - 1000 <= decoded_size(document)


def test_escapes_of_html_do_not_count_as_wide_characters() -> None:
    # Go escapes these in all JSON that an API server sends.
    assert decoded_size(text(r"\u0026\u003c\u003e")) == pytest.approx(decoded_size(text("")), rel=0.01)


def test_two_pods_of_the_largest_size_fit_into_a_request() -> None:
    variables = [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(30_000)]
    pod = {"spec": {"containers": [{"name": "c", "env": variables}]}}
    body = msgspec.json.encode({"request": {"object": pod, "oldObject": pod}})
    assert len(body) > 2_500_000
    assert decoded_size(body) < bodies.MOST_DECODED_OF_PEER


class Server:
    """Listener that withholds answers until the test releases them."""

    def __init__(self) -> None:
        self._bodies = Bodies("test")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sent: set[asyncio.Task[int]] = set()
        self.begun: list[str] = []
        """Names of the requests whose turn has begun, in this order."""
        self.may_end: dict[str, asyncio.Event] = {}

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request as soon as the test permits it."""
        name = request.match_info["name"]
        async with self._bodies.read(request):
            self.begun.append(name)
            await self.may_end[name].wait()
        return web.Response()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve until the end of this context."""
        app = web.Application(client_max_size=4 * KIB * KIB)
        app.router.add_post("/{name}", self.answer)
        server = HttpServer(app, "test", connections=100, keepalive=5.0)
        await server.start([self._listening])
        try:
            yield
        finally:
            for event in self.may_end.values():
                event.set()
            await asyncio.gather(*self._sent)
            await server.stop()

    def send(self, name: str, length: int, peer: str) -> asyncio.Task[int]:
        """Send a request and return the status of the answer."""
        self.may_end[name] = asyncio.Event()
        task = asyncio.create_task(self._status(name, length, peer))
        self._sent.add(task)
        return task

    async def _status(self, name: str, length: int, peer: str) -> int:
        port = self._listening.getsockname()[1]
        connector = aiohttp.TCPConnector(local_addr=(peer, 0), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as http,
            http.post(f"http://127.0.0.1:{port}/{name}", data=b" " * length) as response,
        ):
            return response.status

    async def begins(self, *names: str) -> None:
        """Wait until exactly these requests have begun since the last call."""
        await until(lambda: len(self.begun) >= len(names), what=f"requests {names} answered")
        assert sorted(self.begun) == sorted(names)
        self.begun.clear()

    async def waits(self, count: int) -> None:
        """Wait until this many requests are queued."""
        await until(lambda: sum(map(len, self._bodies._waiting.values())) == count, what=f"{count} requests waiting")


CROWD, API_SERVER = "127.0.0.2", "127.0.0.3"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """Server with a thousandth of the real memory limit."""
    for name in ("MOST_BYTES", "MOST_DECODED", "MOST_DECODED_OF_PEER", "SMALL", "RESERVED", "RESERVED_OF_PEER"):
        monkeypatch.setattr(bodies, name, getattr(bodies, name) // KIB)
    monkeypatch.setattr(bodies, "SECONDS", 60.0)
    server = Server()
    async with server.serving():
        yield server


async def test_bodies_under_answer_do_not_keep_another_peer_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MOST_BYTES", 24 * KIB)
    names = [f"large-{i}" for i in range(6)]
    sent = [server.send(name, 4 * KIB, CROWD) for name in names]
    await server.begins(*names)
    small = server.send("small", 512, API_SERVER)
    server.may_end["small"].set()
    assert await small == 200
    assert not any(task.done() for task in sent)


async def test_a_small_request_does_not_wait_for_large_ones_of_its_peer(server: Server) -> None:
    for name in ("large-1", "large-2", "large-3", "large-4"):
        server.send(name, 4 * KIB, API_SERVER)
    await server.begins("large-1", "large-2", "large-3", "large-4")
    for count in (1, 2, 3):
        server.send(f"late-{count}", 6 * KIB, API_SERVER)
    await server.begins("late-1")
    await server.waits(2)
    small = server.send("small", 500, API_SERVER)
    server.may_end["small"].set()
    assert await small == 200
    await server.begins("small")
    await server.waits(2)


async def test_small_requests_beyond_the_reserve_come_before_large_ones_that_wait(server: Server) -> None:
    large = [f"large-{i}" for i in range(6)]
    for name in large:
        server.send(name, 4 * KIB, API_SERVER)
    await server.begins(*large)
    server.send("late", 4 * KIB, API_SERVER)
    await server.waits(1)
    small = [f"small-{i}" for i in range(4)]
    for name in small:
        server.send(name, 500, API_SERVER)
    await server.begins(*small)
    server.send("small-4", 500, API_SERVER)
    await server.waits(2)
    server.may_end["small-0"].set()
    await server.begins("small-4")
    await server.waits(1)
    server.may_end["large-0"].set()
    await server.begins("late")


async def test_small_requests_of_one_peer_leave_reserved_memory_to_another(server: Server) -> None:
    full = {CROWD: 12, "127.0.0.4": 4}
    large = [(f"{peer}-{i}", peer) for peer, count in full.items() for i in range(count)]
    for name, peer in large:
        server.send(name, 2 * KIB, peer)
    await server.begins(*(name for name, _ in large))
    small = [f"small-{i}" for i in range(4)]
    for name in small:
        server.send(name, 500, CROWD)
    await server.begins(*small)
    server.send("one too many", 500, CROWD)
    await server.waits(1)
    server.send("small", 500, API_SERVER)
    await server.begins("small")
