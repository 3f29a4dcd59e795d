"""`hack/bench gateway --size NxSxC`: CPU of the process next to Envoy for one change in a large installation.

N namespaces share S Services each over C clusters. The process computes the files for Envoy in a directory. One change
makes another pod of one Service ready. At the end an Envoy starts with the files, whose peers do not answer.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, PODS, Kind
from agent.base import certificate_bundle, certificates
from agent.gateway.admin import Admin
from agent.gateway.cluster import FromCluster
from agent.gateway.loop import Loop
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.informer import Informer
from agent.kube.session import Session
from agent.kube.store import Object
from agent.model import envoy, gatewaypeer
from agent.model.envoyparts import Place
from agent.model.gatewaypeer import FIRST_PORT
from agent.model.gatewaysize import limits
from hack.lab.benchmarks import procfs, report
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.errors import BenchError
from hack.lab.sandbox.gateways import program

CHANGES = 9
READY = 2
"""Ready pods of each Service before the changes."""
ENVOY_MEMORY = 512 << 20
"""Memory limit of Envoy's container in the chart."""
_MOST_CPU = 0.1
_SOURCE, _OWN = "uid-of-the-source", "uid-own"
_LIFETIMES = certificate_bundle.Lifetimes(issue=certificates.issue_identity)
_MIB = 1 << 20
_START_SECONDS = 600.0
_versions = itertools.count(1)

Raw = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """Size of the installation."""

    namespaces: int
    services: int
    clusters: int

    @property
    def peers(self) -> int:
        """Number of GatewayPeers in one cluster."""
        return self.namespaces * (self.clusters - 1)

    def __str__(self) -> str:
        return f"{self.namespaces} namespaces x {self.services} Services x {self.clusters} clusters"


def size(text: str) -> Size:
    """Parse NxSxC. Raises argparse.ArgumentTypeError."""
    parts = text.split("x")
    if len(parts) != 3 or not all(each.isdecimal() and int(each) for each in parts) or int(parts[2]) < 2:
        raise argparse.ArgumentTypeError("not NAMESPACESxSERVICESxCLUSTERS with 2 clusters or more, such as 100x20x20")
    return Size(*map(int, parts))


@dataclass(frozen=True)
class Sized:
    """Figures of one size."""

    size: Size
    first: float
    """CPU seconds to compute all of it."""
    changes: list[float]
    """CPU seconds of each change."""
    longest: float
    """CPU seconds of the longest part of a change that blocks other tasks."""
    left_out: int
    """Services that exceed the limits of Envoy."""
    files: int
    """Bytes of Envoy's files."""
    rss: int
    """Peak memory of this process in KiB."""
    envoy: int
    """Memory of an Envoy with these files in KiB."""


async def sized(size: Size, memory: int = ENVOY_MEMORY) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values. Raises BenchError.

    :param memory: memory limit of Envoy in bytes; 0 for no limit
    """
    if size.peers * size.services > gatewaypeer.LAST_PORT - FIRST_PORT + 1:
        raise BenchError("a gateway has 40,000 local ports: choose fewer namespaces, Services or clusters")
    with tempfile.TemporaryDirectory(prefix="gateway-") as directory:
        async with _process(Path(directory), memory) as (cluster, loop, admin):
            found = await _measure(size, cluster, loop, admin, Path(directory))
    typical = statistics.median(found.changes)
    budgets = [Budget("CPU of one change, median", typical * 1000, "most", _MOST_CPU * 1000, "ms")]
    if memory:
        budgets.append(Budget("Envoy RSS", found.envoy / 1024, "most", memory / _MIB, "MiB"))
    figures = {
        "benchmark": "gateway",
        "size": [size.namespaces, size.services, size.clusters],
        "first_cpu_seconds": found.first,
        "change_cpu_seconds": found.changes,
        "change_longest_seconds": found.longest,
        "services_left_out": found.left_out,
        "files_bytes": found.files,
        "peak_rss_kib": found.rss,
        "envoy_rss_kib": found.envoy,
        "budgets": report.budget_figures(budgets),
    }
    return [*_lines(found), *report.budget_lines(budgets)], figures


def _lines(found: Sized) -> list[str]:
    changes = [each * 1000 for each in sorted(found.changes)]
    median = statistics.median(changes)
    return [
        "",
        f"{found.size}: {found.size.peers} GatewayPeers",
        f"CPU to compute all of it: {found.first:.2f} s",
        f"CPU of one more ready pod: median of {len(changes)} {median:.0f} ms, most {changes[-1]:.0f} ms",
        f"longest part of a change without a turn for other tasks: {found.longest * 1000:.0f} ms of CPU",
        f"files of Envoy {found.files / _MIB:.1f} MiB, {found.left_out} Services left out by its limits",
        f"peak memory of this process {found.rss / 1024:.0f} MiB, of Envoy {found.envoy / 1024:.0f} MiB",
    ]


@contextlib.asynccontextmanager
async def _process(directory: Path, memory: int) -> AsyncIterator[tuple[FromCluster, Loop, Admin]]:
    """Yield the process next to Envoy, without an API server, and the client of an Envoy that does not run yet."""
    own = certificate_bundle.new(_OWN, (gatewaypeer.identity(_OWN),), datetime.now(UTC), _LIFETIMES)
    (directory / "tls.crt").write_bytes(own.serving.certificate)
    (directory / "tls.key").write_bytes(own.serving.key)
    path, host = directory / "gateway.json", f"127.{64 + os.getpid() % 128}.1.1"
    place = Place(str(directory), 15443, host, health=f"{host}:19903", live=f"{host}:8081")
    async with (
        Session(Connection("http://127.0.0.1:1"), name="local") as session,
        Admin(str(directory / envoy.ADMIN)) as admin,
    ):
        loop = Loop(place, path, directory, admin)
        yield FromCluster(Client(session), "gateway-1", path, loop, limits(memory)), loop, admin


async def _measure(size: Size, cluster: FromCluster, loop: Loop, admin: Admin, directory: Path) -> Sized:
    _fill(size, cluster)
    first, changes, longest = await _cpu(cluster, loop), list[float](), 0.0
    for number in range(2 * CHANGES):
        _add_pod(cluster, number * size.namespaces // (2 * CHANGES), number % size.services)
        if number % 2:
            longest = max(longest, await _longest(cluster, loop))
        else:
            changes.append(await _cpu(cluster, loop))
    if loop.problem() not in (None, "Envoy does not answer"):
        raise BenchError(f"the gateway has a problem: {loop.problem()}")
    files = sum((directory / each).stat().st_size for each in (envoy.CLUSTERS, envoy.LISTENERS))
    left = cluster.inputs.left_out
    peak = procfs.usage(os.getpid()).peak
    return Sized(size, first, changes, longest, left, files, peak, await _envoy(directory, admin))


async def _envoy(directory: Path, admin: Admin) -> int:
    """Return the memory in KiB of an Envoy that has loaded all files. Raises BenchError."""
    process = await asyncio.create_subprocess_exec(
        program(),
        *envoy.arguments(str(directory)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    until = time.monotonic() + _START_SECONDS
    try:
        while not ((stats := await admin.stats()) and stats.listens and stats.version(listeners=True)):
            if process.returncode is not None or time.monotonic() > until:
                raise BenchError(f"Envoy has not loaded its files within {_START_SECONDS:.0f} s")
            await asyncio.sleep(1)
        refused = [stats.rejected(listeners=each) for each in (True, False)]
        if any(refused):
            raise BenchError(f"Envoy refuses parts of its files: listeners, clusters {refused}")
        return procfs.usage(process.pid).rss
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _cpu(cluster: FromCluster, loop: Loop) -> float:
    """Compute and write changes; return the CPU seconds."""
    began = time.process_time()
    await cluster.refresh(_OWN)
    await loop.apply()
    return time.process_time() - began


async def _longest(cluster: FromCluster, loop: Loop) -> float:
    """Compute and write changes; return the CPU seconds of the longest part that blocks other tasks."""
    longest = 0.0

    async def turns() -> None:
        nonlocal longest
        while True:
            # CPU time: wall-clock time would include other programs.
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    watch = asyncio.create_task(turns())
    await asyncio.sleep(0)
    await _cpu(cluster, loop)
    await asyncio.sleep(0)
    watch.cancel()
    return longest


def _fill(size: Size, cluster: FromCluster) -> None:
    now = datetime.now(UTC)
    cas = [
        certificate_bundle.new(f"uid-{number}", ("x",), now, _LIFETIMES).trusted.decode()
        for number in range(1, size.clusters)
    ]
    port = FIRST_PORT
    for space in range(size.namespaces):
        for number, ca in enumerate(cas, 1):
            _see(cluster.informers[0], _peer(space, number, ca, size.services, port))
            port += size.services
        for service in range(size.services):
            _see(cluster.informers[2], _slice(space, service, READY))
            for ready in range(READY):
                _see(cluster.informers[3], _pod(space, service, ready))


def _add_pod(cluster: FromCluster, space: int, service: int) -> None:
    _see(cluster.informers[3], _pod(space, service, READY))
    _see(cluster.informers[2], _slice(space, service, READY + 1))


def _see(informer: Informer, obj: Object) -> None:
    """Put an object into an informer, as a watch does."""
    informer._contents.put(obj, int(obj.version))


def _object(kind: Kind, name: str, space: int, labels: Raw, **fields: Any) -> Object:
    metadata = {
        "name": name,
        "namespace": f"team-{space:03}",
        "resourceVersion": str(next(_versions)),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
    }
    return Object(kind, msgspec.json.encode({**fields, "metadata": metadata}))


def _peer(space: int, number: int, ca: str, services: int, port: int) -> Object:
    ports = [{"name": "http", "port": 80}]
    told = [{"name": _name(each), "ports": ports} for each in range(services)]
    locals_ = [{"name": _name(each), "ports": [{"port": 80, "locals": [port + each]}]} for each in range(services)]
    spec = {
        "uid": f"uid-{number}",
        "ca": ca,
        "addresses": [f"203.0.113.{number}:15443"],
        "services": [{**each, "ready": READY} for each in told],
        "offered": told,
    }
    labels = {names.LABEL_PARENT_CLUSTER_UID: _SOURCE}
    return _object(GATEWAY_PEERS, f"cluster-{number:02}", space, labels, spec=spec, status={"services": locals_})


def _slice(space: int, service: int, ready: int) -> Object:
    labels = {names.LABEL_SERVICE_NAME: _name(service), names.LABEL_PARENT_CLUSTER_UID: _SOURCE}
    endpoints = [
        {"addresses": [_address(space, service, each)], "conditions": {"ready": True}} for each in range(ready)
    ]
    fields = {"addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}
    return _object(ENDPOINT_SLICES, f"{_name(service)}-abcde", space, labels, endpoints=endpoints, **fields)


def _pod(space: int, service: int, number: int) -> Object:
    status = {"podIPs": [{"ip": _address(space, service, number)}]}
    return _object(PODS, f"{_name(service)}-{number}", space, {}, spec={"nodeName": "node"}, status=status)


def _name(service: int) -> str:
    return f"service-{service:02}"


def _address(space: int, service: int, number: int) -> str:
    return f"10.{space}.{service}.{number + 1}"
