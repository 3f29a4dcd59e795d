"""An agent of a target is asked for its identity, at the address of its pod."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from agent.services.endpoints.asking import ask

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[str]:
    serving = set[asyncio.Task[None]]()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await asyncio.wait_for(asyncio.gather(*serving), 30)


def saying(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

    return serve


def http(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def test_an_agent_names_its_cluster() -> None:
    async with listening(saying(http("200 OK", b'{"cluster":"there","more":1}'))) as address:
        assert await ask(address) == "there"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(http("404 Not Found", b"404 page not found"), id="some web server"),
        pytest.param(http("200 OK", b"welcome"), id="that says anything"),
        pytest.param(http("200 OK", b'{"cluster":5}'), id="of another type"),
        pytest.param(http("200 OK", b'{"cluster":"' + b"x" * 100_000 + b'"}'), id="without end"),
        pytest.param(http("503 Service Unavailable", b'{"cluster":""}'), id="an agent that does not know yet"),
        pytest.param(http("302 Found", b"", "Location: http://127.0.0.1:1/"), id="that sends us elsewhere"),
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", id="another protocol"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_whoever_names_none_is_nobody(answer: bytes) -> None:
    async with listening(saying(answer)) as address:
        assert await ask(address) == ""


async def test_nobody_listens() -> None:
    async with listening(saying(b"")) as address:
        pass
    assert await ask(address) == ""


async def test_silence_is_waited_for_no_longer_than_is_said() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(silent) as address, asyncio.timeout(30):
        assert await ask(address, 0.2) == ""
