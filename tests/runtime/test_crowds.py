"""Peers that open many connections to the health and metrics ports, or scrape them many times at once."""

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.runtime import exposition, health
from agent.runtime.health import CONNECTIONS, Health
from tests.runtime.test_health import free_port
from tests.waiting import until

CROWD, KUBELET = "127.0.0.2", "127.0.0.3"
"""Source addresses of peers."""
RENDERING_SECONDS = 0.5


class SlowCollector(Collector):
    """Collector that counts renderings, each of them slow and without releasing its thread."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily("slow", "Slow.")

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.threads.append(threading.get_ident())
        time.sleep(RENDERING_SECONDS)
        yield GaugeMetricFamily("slow", "Slow.", value=len(self.threads))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowCollector:
    """Register the slow collector as the only metric of the process."""
    registry, collector = CollectorRegistry(), SlowCollector()
    registry.register(collector)
    monkeypatch.setattr(health, "EXPOSITION", exposition.Exposition(registry))
    return collector


@pytest.fixture
async def address(slow: SlowCollector) -> AsyncIterator[str]:
    address = f"127.0.0.1:{free_port()}"
    task = asyncio.create_task(Health(address).serve())
    await until(lambda: _listens(address), what="the port open")
    yield address
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _listens(address: str) -> bool:
    with contextlib.suppress(OSError):
        (await asyncio.open_connection(*address.split(":")))[1].close()
        return True
    return False


def caller(peer: str) -> aiohttp.ClientSession:
    """Return a client with its own source address that opens a connection for each request."""
    connector = aiohttp.TCPConnector(local_addr=(peer, 0), force_close=True, limit=0)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30))


async def status(http: aiohttp.ClientSession, address: str, path: str) -> int:
    async with http.get(f"http://{address}{path}") as response:
        await response.read()
        return response.status


async def longest_pause(done: asyncio.Event) -> float:
    """Longest time in seconds for which the event loop ran nothing else."""
    longest = 0.0
    while not done.is_set():
        before = time.monotonic()
        await asyncio.sleep(0.005)
        longest = max(longest, time.monotonic() - before)
    return longest


async def test_fifty_scrapes_at_once_cost_one_rendering_in_a_thread(slow: SlowCollector, address: str) -> None:
    done = asyncio.Event()
    watching = asyncio.create_task(longest_pause(done))
    async with contextlib.AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(caller(f"127.0.1.{number}")) for number in range(1, 6)]
        found = Counter(await asyncio.gather(*(status(peers[i % 5], address, "/metrics") for i in range(50))))
    done.set()
    assert await watching < RENDERING_SECONDS / 2
    assert found == {200: exposition.AT_ONCE, 503: 50 - exposition.AT_ONCE}
    assert len(slow.threads) == 1
    assert slow.threads[0] != threading.get_ident()


async def test_metrics_are_rendered_again_after_two_seconds(slow: SlowCollector, address: str) -> None:
    async with caller(KUBELET) as http:
        assert await status(http, address, "/metrics") == 200
        assert await status(http, address, "/metrics") == 200
        assert len(slow.threads) == 1
        await asyncio.sleep(exposition.FRESH_SECONDS)
        assert await status(http, address, "/metrics") == 200
        assert len(slow.threads) == 2


async def test_one_peer_leaves_turns_to_others_and_is_told_when_to_come_again(address: str) -> None:
    async with caller(CROWD) as crowd, caller(KUBELET) as prometheus:
        scrapes = [asyncio.create_task(status(crowd, address, "/metrics")) for _ in range(20)]
        await asyncio.sleep(RENDERING_SECONDS / 5)
        async with crowd.get(f"http://{address}/metrics") as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
            assert f"more than {exposition.PER_PEER} of {CROWD}" in await refused.text()
        assert await status(prometheus, address, "/metrics") == 200
        assert Counter(await asyncio.gather(*scrapes)) == {200: 4, 503: 16}


async def test_a_reader_that_takes_nothing_gives_its_turn_back(
    address: str, monkeypatch: pytest.MonkeyPatch, slow: SlowCollector
) -> None:
    monkeypatch.setattr(exposition, "_SEND_SECONDS", 3)
    text = f"# {'x' * 8_000_000}\n".encode()
    monkeypatch.setattr(exposition, "generate_latest", lambda registry: text)
    readers = [await idle(address, CROWD, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(4)]
    try:
        async with caller(CROWD) as http:
            await until(lambda: _answers(http, address, 503), 10, what="503 from /metrics")
            await until(lambda: _answers(http, address, 200), 10, what="200 from /metrics")
    finally:
        for reader in readers:
            reader.close()


async def test_two_peers_that_take_nothing_leave_a_turn_to_a_third(
    address: str, monkeypatch: pytest.MonkeyPatch, slow: SlowCollector
) -> None:
    monkeypatch.setattr(exposition, "_SEND_SECONDS", 100)
    text = f"# {'x' * 8_000_000}\n".encode()
    monkeypatch.setattr(exposition, "generate_latest", lambda registry: text)
    scrape = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    async with caller(CROWD) as crowd, caller(KUBELET) as prometheus:
        peers = [CROWD, "127.0.0.4"] * exposition.PER_PEER
        readers = [await idle(address, peer, scrape) for peer in peers]
        try:
            await until(lambda: _answers(crowd, address, 503), 10, what="503 from /metrics")
            assert await status(prometheus, address, "/metrics") == 200
            await until(lambda: sum(map(is_ended, readers)) == 1, 10, what="one reader has lost its turn")
        finally:
            for reader in readers:
                reader.close()


def is_ended(reader: socket.socket) -> bool:
    """Return whether the server has ended a connection. Reads all that the server has sent."""
    with contextlib.suppress(BlockingIOError):
        try:
            while reader.recv(65536):
                pass
        except ConnectionError:
            pass
        return True
    return False


async def _answers(http: aiohttp.ClientSession, address: str, expected: int) -> bool:
    return await status(http, address, "/metrics") == expected


async def idle(address: str, peer: str, sent: bytes = b"") -> socket.socket:
    """Open a connection that sends these bytes and then nothing more."""
    made = socket.socket()
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.bind((peer, 0))
    host, _, port = address.rpartition(":")
    await asyncio.get_running_loop().sock_connect(made, (host, int(port)))
    if sent:
        await asyncio.get_running_loop().sock_sendall(made, sent)
    return made


def is_open(made: socket.socket) -> bool:
    """Return whether the server has kept a connection open."""
    try:
        return made.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nX-Slow: "])
async def test_probes_are_answered_while_a_peer_holds_a_thousand_connections(address: str, sent: bytes) -> None:
    held: list[socket.socket] = []
    try:
        async with caller(KUBELET) as kubelet:
            for _ in range(10):
                held += [await idle(address, CROWD, sent) for _ in range(100)]
                started = time.monotonic()
                assert await status(kubelet, address, "/healthz") == 200
                assert time.monotonic() - started < 10
        assert sum(map(is_open, held)) <= CONNECTIONS
    finally:
        for made in held:
            made.close()


HEAD, SLOW = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /healthz HTTP/1.1\r\nX-Slow: "


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_peer_that_is_slow_to_ask_is_cut_off_and_one_that_has_not_begun_is_not(address: str) -> None:
    loop = asyncio.get_running_loop()
    later, again, slow = [await idle(address, CROWD, sent) for sent in (b"", HEAD, SLOW)]
    try:
        assert (await loop.sock_recv(again, 4096)).startswith(b"HTTP/1.1 200")
        await loop.sock_sendall(again, SLOW)
        assert is_open(slow)
        assert is_open(again)
        await until(lambda: not is_open(slow), what="the first connection closed", seconds=20)
        await until(lambda: not is_open(again), what="the second connection closed", seconds=20)
        await loop.sock_sendall(later, HEAD)
        assert (await loop.sock_recv(later, 4096)).startswith(b"HTTP/1.1 200")
    finally:
        for made in (later, again, slow):
            made.close()


UNREAD = {
    "body": (b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", b"HTTP/1.1 404", b"abc"),
    "expectation": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\n\r\n", b"HTTP/1.1 417", b""),
}


@pytest.mark.parametrize("what", UNREAD)
async def test_no_request_follows_one_that_was_answered_before_it_was_read(address: str, what: str) -> None:
    request, answer, rest = UNREAD[what]
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        assert head.startswith(answer)
        assert b"\r\nConnection: close\r\n" in head
        with contextlib.suppress(OSError):
            writer.write(rest + HEAD)
            assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), 3)
    finally:
        writer.transport.abort()


async def test_an_answer_keeps_the_connection_if_the_request_was_read(address: str) -> None:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        for _ in range(2):
            writer.write(b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            assert head.startswith(b"HTTP/1.1 404")
            assert b"Connection: close" not in head
            assert await reader.readexactly(len(b"404: Not Found")) == b"404: Not Found"
    finally:
        writer.transport.abort()


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_client_that_goes_on_asking_keeps_its_connection(address: str) -> None:
    kept = await idle(address, KUBELET)
    loop = asyncio.get_running_loop()
    try:
        for _ in range(4):
            await loop.sock_sendall(kept, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await loop.sock_recv(kept, 4096)).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(2)
    finally:
        kept.close()
