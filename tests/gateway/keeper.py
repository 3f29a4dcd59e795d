"""TCP server that answers line by line, and clients that keep their connections, in the network of a pod.

`python keeper.py serve PORT NAME` answers with its name until its input ends.

`python keeper.py ask HOST PORT CLIENTS` asks over CLIENTS connections until its input ends and reconnects lost
ones. Every other connection asks questions that take a second to answer. It prints `ready` once all connections
have an answer. At the end it prints numbers as JSON: questions, answers by name, ended connections, questions
in flight when they ended, failed attempts to reconnect.
"""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from typing import Any

SECONDS = 60.0
"""Timeout of an answer in seconds."""
_PAUSE_SECONDS = 0.2
_LONG_SECONDS = 1.0


async def serve(port: int, name: str) -> None:
    """Answer until the input ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                await asyncio.sleep(float(line.split()[1]))
                writer.write(f"{name} ".encode() + line)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "0.0.0.0", port):
        print("ready", flush=True)
        await _end()


class Clients:
    """Clients that ask until they are stopped."""

    def __init__(self, host: str, port: int) -> None:
        self._at = (host, port)
        self._over = False
        self._answers = Counter[str]()
        self._first = asyncio.Semaphore(0)
        self._counts = Counter[str]()

    async def run(self, clients: int) -> dict[str, Any]:
        """Ask until the input ends, then wait for the answers."""
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(self._keep(_LONG_SECONDS * (number % 2), number * _PAUSE_SECONDS))
            ready = group.create_task(self._ready(clients))
            await _end()
            self._over = True
            ready.cancel()
        counts = {name: self._counts[name] for name in ("asked", "ended", "under way", "not connected")}
        return {"answers": self._answers, **counts}

    async def _ready(self, clients: int) -> None:
        for _ in range(clients):
            await self._first.acquire()
        # kube-proxy may observe the Service only now.
        del self._counts["not connected"]
        print("ready", flush=True)

    async def _keep(self, takes: float, after: float) -> None:
        # Clients pause at different times.
        await asyncio.sleep(after)
        while not self._over:
            try:
                async with asyncio.timeout(SECONDS):
                    reader, writer = await asyncio.open_connection(*self._at)
            except (OSError, TimeoutError):
                self._counts["not connected"] += 1
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if not await self._ask_over(reader, writer, takes):
                self._counts["ended"] += 1
            writer.close()

    async def _ask_over(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, takes: float) -> bool:
        """Ask over one connection. Return whether it is still open at the end."""
        first = True
        while not self._over:
            if reader.at_eof() or reader.exception() is not None:
                return False
            self._counts["asked"] += 1
            said, heard = f"{self._counts['asked']} {takes}\n".encode(), b""
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(SECONDS):
                    writer.write(said)
                    heard = await reader.readline()
            name, _, again = heard.partition(b" ")
            if again != said:
                self._counts["under way"] += 1
                return False
            self._answers[name.decode()] += 1
            if first:
                self._first.release()
            first = False
            await asyncio.sleep(_PAUSE_SECONDS)
        return True


async def _end() -> None:
    """Wait for the end of the input."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(int(sys.argv[2]), sys.argv[3]))
    else:
        print(json.dumps(asyncio.run(Clients(sys.argv[2], int(sys.argv[3])).run(int(sys.argv[4])))))
