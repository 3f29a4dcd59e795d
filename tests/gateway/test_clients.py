"""Test clients of the gateways, checked on loopback without a gateway: their reports are correct."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest

from tests.e2e import requester
from tests.gateway import conntrack, keeper, streamer
from tests.gateway.lab import serving
from tests.waiting import until

HOST = "127.0.0.1"
Process = asyncio.subprocess.Process


async def started(program: ModuleType, *words: str) -> Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, str(program.__file__), *words, stdin=pipe, stdout=pipe)


@contextlib.asynccontextmanager
async def answering(program: ModuleType, *words: str) -> AsyncIterator[tuple[Process, str]]:
    """Run a server at a free port."""
    async with serving(lambda reader, writer: asyncio.sleep(0), HOST) as free:
        port = free.rpartition(":")[2]
    server = await started(program, "serve", port, *words)
    assert server.stdout is not None
    assert await server.stdout.readline() == b"ready\n"
    try:
        yield server, port
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.kill()
        await server.wait()


async def told(client: Process) -> Any:
    output, _ = await client.communicate(b"")
    return json.loads(output.splitlines()[-1])


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_is_lost_of_connections_that_are_kept_is_told() -> None:
    async with answering(keeper, "one") as (server, port):
        client = await started(keeper, "ask", HOST, port, "4")
        await until(lambda: _read(client, b"ready\n"), what="all have been answered")
        server.kill()
        await server.wait()
        again = await started(keeper, "serve", port, "another")
        assert again.stdout is not None
        assert await again.stdout.readline() == b"ready\n"
        await asyncio.sleep(1.5)
        found = await told(client)
        await again.communicate(b"")
    assert set(found["answers"]) == {"one", "another"}
    # An immediate reconnect may still reach the server that is ending.
    assert found["ended"] >= 4
    assert found["not connected"] > 0
    # Two of the four clients ask slow questions of a second, and pause for 0.2 s at different times.
    assert 1 <= found["under way"] <= found["ended"]
    assert found["asked"] == sum(found["answers"].values()) + found["under way"]


async def test_connections_that_stay_are_not_ended() -> None:
    async with answering(keeper, "one") as (_, port):
        client = await started(keeper, "ask", HOST, port, "2")
        await until(lambda: _read(client, b"ready\n"), what="all have been answered")
        found = await told(client)
    assert (found["ended"], found["under way"], found["not connected"]) == (0, 0, 0)
    assert found["answers"] == {"one": found["asked"]}


async def test_streams_are_compared_by_digests_of_both_ends() -> None:
    async with answering(streamer) as (_, port):
        found = await told(await started(streamer, "send", HOST, port, "3", "2"))
    assert [found[way]["bytes"] for way in ("there", "back")] == [3 << 20, 2 << 20]
    assert found["there"]["said"] == found["there"]["heard"]
    assert found["back"]["said"] == found["back"]["heard"]


def test_no_part_of_a_stream_is_like_another_one() -> None:
    chunks = list(streamer.content(4))
    pages = [chunk[place : place + 4096] for chunk in chunks for place in range(0, streamer.MIB, 4096)]
    assert len(set(pages)) == len(pages)
    assert list(streamer.content(4)) == chunks


async def test_who_answers_first_the_longest_answer_and_how_many_were_asked_are_told() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.7)
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nweb")
        await writer.drain()

    async with serving(slowly, HOST) as at:
        client = await started(requester, "100")
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(f"{at}\n".encode())
        assert await client.stdout.readline() == b"met web\n"
        await until(lambda: _read(client, b"asked 100\n"), what="a hundred are asked")
        found = await told(client)
    assert found["asked"] >= 100
    assert found["answers"] == {"web": found["asked"]}
    assert 0.7 <= found["longest"] < requester.SECONDS


async def test_a_request_that_fails_is_told_with_its_time_and_its_port() -> None:
    ports = set[int]()

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.add(writer.get_extra_info("peername")[1])
        writer.transport.abort()

    began = time.time()
    async with serving(reset, HOST) as at:
        client = await started(requester, "100")
        assert client.stdin is not None
        client.stdin.write(f"{at}\n".encode())
        await until(lambda: _read(client, b"asked 100\n"), what="a hundred are asked")
        found = await told(client)
    assert len(found["failures"]) == found["asked"]
    assert all(began <= each["began"] <= each["ended"] for each in found["failures"])
    assert {each["port"] for each in found["failures"]} == ports


def test_the_kernel_leads_a_port_as_before_for_ten_seconds_after_it_was_reset() -> None:
    def failure(began: float, port: int = 1) -> dict[str, float]:
        return {"began": began, "ended": began + 2, "port": port}

    first, soon, late = failure(0), failure(12), failure(24.1)
    others = [failure(5, 2), failure(13, 0), failure(14, 0)]
    assert conntrack.led_as_before([late, *others, soon, first]) == [soon]


async def _read(client: Process, line: bytes) -> bool:
    assert client.stdout is not None
    return await client.stdout.readline() == line
