"""Gateway benchmark: a stream and short connections through two gateways, compared with direct ones.

Both gateways, client and server share this machine's processors. Then the benchmark configures 2,000 Services,
and measures the memory of both Envoys. Other gateways forward datagrams.
"""

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent.cli.progress import Progress
from agent.model.gatewaypeer import FIRST_PORT, Called, Offered, Peer, Service
from hack.lab.benchmarks import procfs, report
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.gatewayudp import datagrams
from hack.lab.benchmarks.lab import Phase
from hack.lab.benchmarks.stats import Spread
from hack.lab.sandbox.gateways import GatewayPod

STREAM_MIB = 1024
ROUNDS = 3
CONNECTIONS = 200
SERVICES = 2000
PORTS = 4
"""Number of local ports of a Service that has as many ready pods for each gateway pod; at most 8."""
ALL, WEIGHED = f"{SERVICES} Services", f"{SERVICES} Services, {PORTS} local ports each"
_SPACE, _NAME = "bench", "echo"
_MIB = 1 << 20
_CHUNK = 32 * 1024
"""Bytes per read and write of client and server, as in Go's io.Copy."""
_WAIT_SECONDS = 120.0
_STREAM, _ECHO = b"s", b"e"

Address = tuple[str, int]


@dataclass(frozen=True)
class Measured:
    """Results: direct, and through the gateways."""

    mib: int
    streams: tuple[list[float], list[float]]
    connects: tuple[Spread, Spread]
    rss: dict[str, int]
    """Peak memory of both Envoys in KiB, by the number of Services."""
    beside: dict[str, int]
    """Peak memory of the processes next to Envoy in KiB, by the number of Services."""
    stream_cpu: float
    """CPU seconds of both Envoys per GiB."""
    phase: Phase
    """Phase of streams and connections."""
    change: float
    """Seconds from the configuration of all Services until the last of them answers."""


async def gateway(mib: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError or SandboxError.

    :param mib: length of a stream in MiB
    """
    first = f"127.{64 + os.getpid() % 128}.0."
    with progress, _serving(f"{first}3") as server:
        async with GatewayPod("uid-a", f"{first}1") as a, GatewayPod("uid-b", f"{first}2") as b:
            found = await _measure(a, b, server, mib, progress)
        udp = await datagrams(first, progress)
    budgets = gateway_budgets(found)
    figures = {
        "benchmark": "gateway",
        "mib": mib,
        "stream_direct_seconds": found.streams[0],
        "stream_gateway_seconds": found.streams[1],
        "connect_direct_p50": found.connects[0].p50,
        "connect_gateway_p50": found.connects[1].p50,
        "connect_gateway_p99": found.connects[1].p99,
        "envoys_cpu_seconds_per_gib": found.stream_cpu,
        "strangers_cpu_seconds": found.phase.strangers,
        "envoy_rss_kib": found.rss,
        "beside_envoy_rss_kib": found.beside,
        "change_seconds": found.change,
        "datagram_direct_p50": udp.answers[0].p50,
        "datagram_gateway_p50": udp.answers[1].p50,
        "datagram_gateway_p99": udp.answers[1].p99,
        "udp_session_kib": udp.session_kib,
        "budgets": report.budget_figures(budgets),
    }
    lines = [*gateway_lines(found), *udp.lines(), *report.disturbance([found.phase]), *report.budget_lines(budgets)]
    return lines, figures


def gateway_budgets(found: Measured) -> list[Budget]:
    """Return the limits for gateways."""
    direct, through = (min(times) for times in found.streams)
    most = found.rss[ALL] / 1024
    return [
        Budget("one stream, gateways / direct", direct / through, "least", 0.2, ""),
        Budget("connect and one byte through gateways, p50", found.connects[1].p50 * 1000, "most", 5.0, "ms"),
        Budget(f"Envoy RSS with {SERVICES} Services", most, "most", 200.0, "MiB"),
    ]


def gateway_lines(found: Measured) -> list[str]:
    """Return a table that compares both ways."""
    rates = [f"{found.mib / min(times):.0f} MiB/s" for times in found.streams]
    rows = [
        ["", "direct", "gateways"],
        [f"one stream of {found.mib} MiB, best of {ROUNDS}", *rates],
        [f"connect and one byte, p50 of {CONNECTIONS}", *(f"{each.p50 * 1000:.2f} ms" for each in found.connects)],
        [f"connect and one byte, p99 of {CONNECTIONS}", *(f"{each.p99 * 1000:.2f} ms" for each in found.connects)],
    ]
    more = [
        ["memory, the larger of two", "Envoy", "beside it"],
        *([name, *(f"{each[name] / 1024:.0f} MiB" for each in (found.rss, found.beside))] for name in found.rss),
    ]
    cpu = f"CPU of both Envoys for a GiB: {found.stream_cpu:.2f} s"
    last = f"{SERVICES} Services told at once: the last one answers after {found.change:.1f} s"
    return ["", *report.table(rows), "", *report.table(more), "", cpu, last]


async def _measure(a: GatewayPod, b: GatewayPod, server: Address, mib: int, progress: Progress) -> Measured:
    local, endpoint = (a.address, FIRST_PORT), f"{server[0]}:{server[1]}"
    _link(a, b, endpoint, 1)
    await _answers(local, a)
    streams: tuple[list[float], list[float]] = ([], [])
    times: tuple[list[float], list[float]] = ([], [])
    before = _sample(a, b)
    for _ in range(ROUNDS):
        for found, address in zip(streams, (server, local), strict=True):
            task = progress.task(f"a stream {'directly' if address is server else 'through the gateways'}")
            found.append(await asyncio.to_thread(_stream, address, mib))
            task.finish()
    stream_cpu = (_sample(a, b).envoys - before.envoys) / (ROUNDS * mib / 1024)
    for _ in range(CONNECTIONS):
        for found, address in zip(times, (server, local), strict=True):
            found.append(await asyncio.to_thread(_connect, address))
    phase = _phase(before, _sample(a, b))
    rss, beside = {"1 Service": _rss("envoy", a, b)}, {"1 Service": _rss("control", a, b)}
    task = progress.task(f"{SERVICES} Services")
    began = time.monotonic()
    _link(a, b, endpoint, SERVICES)
    await _answers((a.address, FIRST_PORT + SERVICES - 1), a)
    change = time.monotonic() - began
    rss[ALL], beside[ALL] = _rss("envoy", a, b), _rss("control", a, b)
    _link(a, b, endpoint, SERVICES, PORTS)
    await _answers((a.address, FIRST_PORT + SERVICES * PORTS - 1), a)
    task.finish()
    rss[WEIGHED], beside[WEIGHED] = _rss("envoy", a, b), _rss("control", a, b)
    return Measured(mib, streams, (Spread.of(times[0]), Spread.of(times[1])), rss, beside, stream_cpu, phase, change)


def _link(a: GatewayPod, b: GatewayPod, endpoint: str, services: int, ports: int = 1) -> None:
    """Connect the gateways so that each calls the Services of the other one, with `ports` local ports per Service."""
    names = [f"{_NAME}-{number}" for number in range(services)]
    # A gateway never reuses a local port for another Service.
    first, more = FIRST_PORT, FIRST_PORT + services
    locals_ = [(first + n, *range(more + n * (ports - 1), more + (n + 1) * (ports - 1))) for n in range(services)]
    called = tuple(Called(name, 80, each) for name, each in zip(names, locals_, strict=True))
    offered = tuple(Offered(name, 80) for name in names)
    own = [Service(_SPACE, name, 80, (endpoint,)) for name in names]
    a.tell([Peer("b", _SPACE, b.uid, b.ca, (b.at,), called, offered)], own)
    b.tell([Peer("a", _SPACE, a.uid, a.ca, (a.at,), called, offered)], own)


@dataclass(frozen=True)
class _Sample:
    """CPU seconds so far of the whole machine, of this process, and of both Envoys."""

    moment: float
    machine: float
    own: float
    envoys: float


def _sample(*gateways: GatewayPod) -> _Sample:
    envoys = sum(procfs.usage(each.pid()).cpu for each in gateways)
    return _Sample(time.monotonic(), procfs.machine(), time.process_time(), envoys)


def _phase(before: _Sample, after: _Sample) -> Phase:
    cpu = {"bench/bench": after.own - before.own, "gateways/envoy": after.envoys - before.envoys}
    strangers = max(0.0, after.machine - before.machine - sum(cpu.values()))
    return Phase(after.moment - before.moment, cpu, strangers, {})


def _rss(process: str, *gateways: GatewayPod) -> int:
    return max(procfs.usage(each.pid(process)).rss for each in gateways)


async def _answers(address: Address, gateway: GatewayPod) -> None:
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(_connect, address)
            return
        await asyncio.sleep(0.05)
    raise BenchError(f"nothing answers through the gateways: {gateway.status()}")


def _connect(address: Address) -> float:
    """Return the seconds from connecting until the first byte is echoed. Raises OSError."""
    began = time.monotonic()
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(_ECHO)
        if connection.recv(1) != _ECHO:
            raise ConnectionError("closed without an answer")
        return time.monotonic() - began


def _stream(address: Address, mib: int) -> float:
    """Return the seconds until the reader has received a whole stream. Raises OSError."""
    chunk = os.urandom(_CHUNK)
    size = mib * _MIB
    with socket.create_connection(address, timeout=300) as connection:
        connection.sendall(_STREAM)
        began = time.monotonic()
        for _ in range(size // _CHUNK):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)
        heard = int(connection.makefile().read() or 0)
        seconds = time.monotonic() - began
    if heard != size:
        raise BenchError(f"{heard} of {size} bytes have come through")
    return seconds


@contextlib.contextmanager
def _serving(host: str) -> Iterator[Address]:
    """Run a server that echoes a byte or counts a stream's bytes, with a thread per connection. Yield its address."""
    with socket.create_server((host, 0), backlog=512) as listener:
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
        yield listener.getsockname()[:2]
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        if connection.recv(1) == _ECHO:
            connection.sendall(_ECHO)
            return
        buffer, heard = bytearray(_CHUNK), 0
        while count := connection.recv_into(buffer):
            heard += count
        connection.sendall(str(heard).encode())
