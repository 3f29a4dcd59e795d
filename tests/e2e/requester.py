"""HTTP client that sends requests to backends at a fixed rate, each on a new connection, and counts failures.

Runs as a process in the network of a cluster: `python requester.py RATE`, in requests per second. Each input
line is a list of backends (`HOST:PORT HOST:PORT`), used round-robin from then on, like an ingress controller
uses the endpoints of a Service. A backend may be the address of a Service. It prints the number of requests
after every hundred (`asked 100`), and each backend's name at its first answer (`met web-1`).

At the end of the input, the last output line is a JSON result. It has the number of requests, answers by
backend, the longest answer time in seconds and the first failures. For every failure it has the begin and end
(as `time.time`) and the client's port, 0 if no connection was accepted.
"""

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from typing import Any

SECONDS = 60.0
"""Timeout of a request. Lost packets are never answered, and a busy machine may stall for long."""
_REQUEST = b"GET / HTTP/1.0\r\nHost: web\r\n\r\n"
_FAILURES = 20
_STEP = 100


class Requester:
    """Sends requests until its input ends; it waits for the first line before the first request."""

    def __init__(self, rate: float) -> None:
        self._pause = 1 / rate
        self._backends: list[str] = []
        self._answers: Counter[str] = Counter()
        self._failed: list[str] = []
        self._failures: list[dict[str, float]] = []
        self._asked = 0
        self._longest = 0.0

    async def run(self) -> dict[str, Any]:
        """Send requests until the input ends, then wait for the answers."""
        lines = asyncio.create_task(self._read())
        turn = itertools.count()
        async with asyncio.TaskGroup() as group:
            due = time.monotonic()
            while not lines.done():
                if self._backends:
                    group.create_task(self._ask(self._backends[next(turn) % len(self._backends)]))
                due = max(due + self._pause, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
        await lines
        return {
            "asked": self._asked,
            "answers": self._answers,
            "longest": round(self._longest, 2),
            "failed": self._failed,
            "failures": self._failures,
        }

    async def _read(self) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self._backends = line.decode().split()

    async def _ask(self, backend: str) -> None:
        self._asked += 1
        if self._asked % _STEP == 0:
            print("asked", self._asked, flush=True)
        began, moment, port = time.monotonic(), time.time(), 0
        try:
            async with asyncio.timeout(SECONDS):
                reader, writer = await asyncio.open_connection(*backend.rsplit(":", 1))
                port = writer.get_extra_info("sockname")[1]
                name = await _answer(reader, writer)
            if name not in self._answers:
                print("met", name, flush=True)
            self._answers[name] += 1
            self._longest = max(self._longest, time.monotonic() - began)
        except (OSError, TimeoutError, ValueError) as error:
            self._failures.append({"began": moment, "ended": time.time(), "port": port})
            if len(self._failed) < _FAILURES:
                took = f"after {time.monotonic() - began:.2f} s"
                self._failed.append(f"{time.strftime('%T')} {backend} {took}: {type(error).__name__} {error}")


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Return the body of an answer. Raises ValueError if the answer is not a 200 with a body."""
    try:
        writer.write(_REQUEST)
        await writer.drain()
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if b" 200 " not in head.partition(b"\r\n")[0] or not body.strip():
        raise ValueError(f"answered {head[:60]!r}")
    return body.decode().strip()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(Requester(float(sys.argv[1])).run())))
