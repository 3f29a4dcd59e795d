"""Unauthorized peers that exhaust the webhook's memory, connections or time."""

import asyncio
import contextlib
import gc
import io
import logging
import re
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import msgspec
import pytest

from agent.runtime import bodies, httpserver
from agent.runtime.process import TLS_BUFFER
from tests.runtime.test_crowds import idle, is_open
from tests.waiting import until
from tests.webhook.reviews import pod, review
from tests.webhook.test_server import Running, running, trusting
from webhook.server import CONNECTIONS

if TYPE_CHECKING:
    import socket

__all__ = ["running"]

FLOOD, API_SERVER = "127.0.0.2", "127.0.0.3"
LIMIT = 4 * 1024 * 1024
MIB = 1024 * 1024
CHUNK = b" " * 65536


@pytest.fixture
def _uncollected() -> Iterator[None]:
    """Disable garbage collection: memory of refused requests must be released without it."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def api_server(running: Running) -> AsyncIterator[aiohttp.ClientSession]:
    """Client like an API server, with its own address and kept connections."""
    running.app._client_max_size = LIMIT
    connector = aiohttp.TCPConnector(ssl=trusting(running.ca), local_addr=(API_SERVER, 0), limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


@contextlib.asynccontextmanager
async def flood(running: Running, count: int, peer: str = FLOOD) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """Open connections of a peer, through the TLS handshake."""
    made = []
    try:
        for _ in range(count):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", running.server.port, ssl=trusting(running.ca), local_addr=(peer, 0)
            )
            made.append(writer)
        yield made
    finally:
        for writer in made:
            writer.transport.abort()


async def unfinished(writer: asyncio.StreamWriter, length: int, sent: int) -> None:
    """Begin a request with a body of `length` bytes, and send only the first `sent` of them."""
    head = f"POST /mutate--v1-pod HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    with contextlib.suppress(OSError):
        writer.write(head.encode())
        for _ in range(sent // len(CHUNK)):
            writer.write(CHUNK)
            await writer.drain()


async def is_answered(running: Running, http: aiohttp.ClientSession) -> bool:
    """Return whether the webhook answers for an elected pod as usual."""
    async with http.post(running.url(), json=review(pod())) as response:
        return response.status == 200 and "patch" in (await response.json())["response"]


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


@pytest.mark.usefixtures("_uncollected")
async def test_a_hundred_unfinished_bodies_neither_fill_the_memory_nor_keep_an_api_server_out(
    running: Running,
    api_server: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.WARNING)
    # The setting of Flotilla's processes.
    monkeypatch.setattr(SSLProtocol, "max_size", TLS_BUFFER)
    assert await is_answered(running, api_server)
    async with flood(running, 100) as writers:
        before = resident()
        sending = [asyncio.create_task(unfinished(each, LIMIT, LIMIT - len(CHUNK))) for each in writers]
        most, started = 0, time.monotonic()
        while not all(task.done() for task in sending) and time.monotonic() - started < 20:
            assert await is_answered(running, api_server)
            most = max(most, resident() - before)
            await asyncio.sleep(0.05)
        await until(lambda: any(f"request of {FLOOD} refused" in line for line in caplog.messages), what="a line")
        assert await is_answered(running, api_server)
        most = max(most, resident() - before)
    assert most < 100 * MIB
    assert len(caplog.messages) < 10


async def test_where_memory_is_short_the_peer_with_the_most_loses_its_oldest_body(
    running: Running,
    api_server: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(bodies, "MOST_BYTES", 5 * len(CHUNK))
    monkeypatch.setattr(bodies, "SECONDS", 30)
    connections = [
        await asyncio.open_connection("127.0.0.1", running.server.port, ssl=trusting(running.ca), local_addr=(peer, 0))
        for peer in (FLOOD, FLOOD, "127.0.0.4")
    ]
    try:
        for _, writer in connections:
            await unfinished(writer, LIMIT, 2 * len(CHUNK))
        (oldest, _), *others = connections
        answer = await asyncio.wait_for(oldest.read(), 30)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1" in answer
        assert b"bodies of requests take more than 327680 bytes in memory: try again" in answer
        assert any(f"webhook: request of {FLOOD} refused (503)" in line for line in caplog.messages)
        assert await is_answered(running, api_server)
        assert not any(reader.at_eof() for reader, _ in others)
    finally:
        for _, writer in connections:
            writer.transport.abort()


async def test_a_body_that_does_not_come_is_answered_with_408(
    running: Running, api_server: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", running.server.port, ssl=trusting(running.ca), local_addr=(FLOOD, 0)
    )
    try:
        await unfinished(writer, 1000, 0)
        started = time.monotonic()
        answer = await asyncio.wait_for(reader.read(), 3 * bodies.SECONDS)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not come within 5 s" in answer
        assert time.monotonic() - started > bodies.SECONDS - 0.1
        assert any(f"webhook: request of {FLOOD} refused (408)" in line for line in caplog.messages)
    finally:
        writer.transport.abort()


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_body_with_one_byte_a_second_is_ended_too(running: Running) -> None:
    async with flood(running, 1) as (writer,):
        await unfinished(writer, 1000, 0)
        started = time.monotonic()
        while not writer.transport.is_closing() and time.monotonic() - started < 20:
            writer.write(b" ")
            await asyncio.sleep(0.5)
        assert time.monotonic() - started < bodies.SECONDS + 4


async def test_lists_of_nothing_are_refused_before_they_are_decoded(
    running: Running, api_server: aiohttp.ClientSession
) -> None:
    before = resident()
    nothing = b"[" + b"[]," * (LIMIT // 3 - 10) + b"[]]"
    assert len(msgspec.json.decode(nothing[:3000].rpartition(b",")[0] + b"]")) > 900
    async with api_server.post(running.url(), data=io.BytesIO(nothing)) as response:
        assert response.status == 413
        assert "decoded" in await response.text()
    assert resident() - before < 50 * MIB
    assert await is_answered(running, api_server)


async def test_many_connections_of_one_peer_leave_room_for_an_api_server(
    running: Running, api_server: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    address = f"127.0.0.1:{running.server.port}"
    held: list[socket.socket] = []
    try:
        for _ in range(4):
            # In the middle of the handshake, which a plain connection never begins.
            held += [await idle(address, FLOOD) for _ in range(CONNECTIONS // 2)]
            assert await is_answered(running, api_server)
        assert sum(map(is_open, held)) <= CONNECTIONS
        assert any(f"closing one of {FLOOD}" in line for line in caplog.messages)
        assert len(caplog.messages) < 10
        await until(lambda: not any(map(is_open, held)), 3 * httpserver.HEAD_SECONDS, what="handshakes ended")
        assert await is_answered(running, api_server)
    finally:
        for made in held:
            made.close()


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_head_that_does_not_end_is_cut_off(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port, ssl=trusting(running.ca))
    try:
        writer.write(b"POST /mutate--v1-pod HTTP/1.1\r\nX: ")
        with contextlib.suppress(OSError, ssl.SSLError):
            assert await asyncio.wait_for(reader.read(), 3 * httpserver.HEAD_SECONDS) == b""
    finally:
        writer.transport.abort()


async def test_a_head_without_end_is_cut_off_before_it_fills_the_memory(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.server.port, ssl=trusting(running.ca))
    started = time.monotonic()
    try:
        with contextlib.suppress(OSError, ssl.SSLError):
            writer.write(b"POST /mutate--v1-pod HTTP/1.1\r\n")
            for number in range(2 * httpserver.HEAD_BYTES // 1000):
                writer.write(f"X-{number}: {'x' * 1000}\r\n".encode())
            await writer.drain()
            assert await asyncio.wait_for(reader.read(), 3 * httpserver.HEAD_SECONDS) == b""
        assert time.monotonic() - started < httpserver.HEAD_SECONDS
    finally:
        writer.transport.abort()


@pytest.mark.full("Four hundred reviews at once on real sockets; other tests of this file hold each bound by itself.")
async def test_a_burst_of_an_api_server_is_answered_whole(running: Running, api_server: aiohttp.ClientSession) -> None:
    padding = {"padding": "x" * 20_000}
    found = await asyncio.gather(*(ask_once(running, api_server, padding) for _ in range(400)))
    assert found == [200] * 400


async def ask_once(running: Running, http: aiohttp.ClientSession, annotations: dict[str, str]) -> int:
    made = pod()
    made["metadata"]["annotations"].update(annotations)
    async with http.post(running.url(), json=review(made)) as response:
        await response.read()
        return response.status
