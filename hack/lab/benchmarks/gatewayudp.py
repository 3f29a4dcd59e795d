"""UDP benchmark: datagrams through two gateways compared with direct ones, and Envoy's memory per UDP session."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from agent.cli.progress import Progress
from agent.model.gatewaypeer import FIRST_PORT, UDP, Called, Offered, Peer, Service
from hack.lab.benchmarks import procfs
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.stats import Spread
from hack.lab.sandbox.gateways import GatewayPod

DATAGRAMS, SESSIONS = 200, 1000
_SPACE, _NAME, _PORT = "bench", "echo", 53
_WAIT_SECONDS, _PAUSE_SECONDS = 120.0, 0.5
_TEXT = b"a datagram"

Address = tuple[str, int]


@dataclass(frozen=True)
class Datagrams:
    """Results: direct, and through the gateways."""

    answers: tuple[Spread, Spread]
    session_kib: float
    """Memory per session in KiB, in the Envoy that needs more of it."""

    def lines(self) -> list[str]:
        """Return the lines of the report."""
        direct, through = (f"p50 {each.p50 * 1000:.2f} ms, p99 {each.p99 * 1000:.2f} ms" for each in self.answers)
        return [
            f"a datagram and its answer, {DATAGRAMS} of {DATAGRAMS}: {direct} directly, {through} through gateways",
            f"memory of a UDP session, {SESSIONS} at once: {self.session_kib:.0f} KiB",
        ]


async def datagrams(first: str, progress: Progress) -> Datagrams:
    """Run the benchmark. Raises BenchError or SandboxError.

    :param first: prefix of loopback addresses that no other process uses
    """
    task = progress.task("datagrams")
    with _serving(f"{first}3") as server:
        async with GatewayPod("uid-a", f"{first}1") as a, GatewayPod("uid-b", f"{first}2") as b:
            local = (a.address, FIRST_PORT)
            _link(a, b, server)
            await asyncio.to_thread(_first, local)
            found = [await asyncio.to_thread(_ask, each) for each in (server, local)]
            before = [procfs.usage(each.pid()).rss for each in (a, b)]
            with contextlib.ExitStack() as stack:
                await asyncio.to_thread(_hold, stack, local)
                after = [procfs.usage(each.pid()).rss for each in (a, b)]
    task.finish()
    grown = max(now - then for then, now in zip(before, after, strict=True))
    return Datagrams((Spread.of(found[0]), Spread.of(found[1])), grown / SESSIONS)


def _link(a: GatewayPod, b: GatewayPod, server: Address) -> None:
    """Connect the gateways so that `a` calls a UDP port of a Service of `b`."""
    called, offered = (Called(_NAME, _PORT, (FIRST_PORT,), protocol=UDP),), (Offered(_NAME, _PORT, protocol=UDP),)
    a.tell([Peer("b", _SPACE, b.uid, b.ca, (b.at,), called)])
    b.tell(
        [Peer("a", _SPACE, a.uid, a.ca, (a.at,), (), offered)],
        [Service(_SPACE, _NAME, _PORT, (f"{server[0]}:{server[1]}",), protocol=UDP)],
    )


def _first(address: Address) -> None:
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), _socket(address, _PAUSE_SECONDS) as own:
            _answered(own)
            return
        time.sleep(_PAUSE_SECONDS)
    raise BenchError("no datagram is answered through the gateways")


def _ask(address: Address) -> list[float]:
    with _socket(address, 10) as own:
        _answered(own)
        return [_answered(own) for _ in range(DATAGRAMS)]


def _hold(stack: contextlib.ExitStack, address: Address) -> None:
    """Open UDP sessions, and wait for an answer in each."""
    for _ in range(SESSIONS):
        _answered(stack.enter_context(_socket(address, 10)))


def _socket(address: Address, seconds: float) -> socket.socket:
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.settimeout(seconds)
    own.connect(address)
    return own


def _answered(own: socket.socket) -> float:
    """Return the seconds until a datagram is answered. Raises OSError."""
    began = time.perf_counter()
    own.send(_TEXT)
    own.recv(len(_TEXT))
    return time.perf_counter() - began


@contextlib.contextmanager
def _serving(host: str) -> Iterator[Address]:
    """Run a server that echoes datagrams, and yield its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind((host, 0))
        address: Address = own.getsockname()
        thread = threading.Thread(target=_echo, args=(own,), daemon=True)
        thread.start()
        yield address
        own.sendto(b"", address)
        thread.join()


def _echo(own: socket.socket) -> None:
    while True:
        data, client = own.recvfrom(65535)
        if not data:
            return
        own.sendto(data, client)
