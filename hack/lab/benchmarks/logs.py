"""Logs benchmark: cost of streams through a virtual node, compared with streams from the target directly.

Two clusters with a real node each. kubectl reads the same container's log from both API servers in turn, and
runs the same command. Then 50 streams with slow readers fill all buffers. Neither the length of a log nor a
slow reader may increase the memory of the source's agent.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from agent.api.kinds import PODS
from agent.api.names import LABEL_PARENT_UID
from agent.cli.progress import Progress
from agent.kube.client import Client
from agent.kube.streams import Answer, ask, connect
from hack.lab.benchmarks import procfs, report
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.burst import takes_pods
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import Lab, lab_in, new_directory, until
from hack.lab.benchmarks.stats import Spread
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.manifests import NAMESPACE

SOURCE, TARGET = CLUSTERS = ("cd", "us")
LOG_MIB = 256
LINE_BYTES = 1_000
ROUNDS = 3
EXECS = 15
STREAMS = 50
STALL_SECONDS = 5.0
WRITE_SECONDS = 300.0
IMAGE = "flotilla.local/busybox:1"
POD = "bench-logs"


@dataclass(frozen=True)
class Measured:
    """Results: seconds directly and through the virtual node, and the peak memory of the source's agent in KiB."""

    log_bytes: int
    logs: tuple[list[float], list[float]]
    execs: tuple[Spread, Spread]
    rss_before: int
    rss_logs: int
    rss_streams: int


async def logs(mib: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.

    :param mib: size of the log in MiB
    """
    size = (mib << 20) // LINE_BYTES * LINE_BYTES
    async with lab_in(Sandbox(new_directory(), CLUSTERS, "real:1", progress=progress), progress) as lab:
        await lab.sandbox.join()
        await until("the target has a virtual node that takes pods", lambda: takes_pods(lab, 1))
        await _prepare(lab, size)
        found = await _measure(lab, size)
    budgets = logs_budgets(found)
    figures = {
        "benchmark": "logs",
        "bytes": size,
        "logs_direct_seconds": found.logs[0],
        "logs_virtual_seconds": found.logs[1],
        "exec_direct_p50": found.execs[0].p50,
        "exec_virtual_p50": found.execs[1].p50,
        "rss_before_kib": found.rss_before,
        "rss_logs_kib": found.rss_logs,
        "rss_streams_kib": found.rss_streams,
        "budgets": report.budget_figures(budgets),
    }
    return [*logs_lines(found), *report.budget_lines(budgets)], figures


def logs_budgets(found: Measured) -> list[Budget]:
    """Return the limits for streams."""
    direct, virtual = (min(times) for times in found.logs)
    long, slow = ((rss - found.rss_before) / 1024 for rss in (found.rss_logs, found.rss_streams))
    return [
        Budget("log throughput, virtual node / direct", direct / virtual, "least", 0.5, ""),
        Budget("exec round trip p50, virtual node / direct", found.execs[1].p50 / found.execs[0].p50, "most", 1.5, ""),
        Budget(
            f"source agent RSS growth with a log of {round(found.log_bytes / (1 << 20))} MiB", long, "most", 20.0, "MiB"
        ),
        Budget(f"source agent RSS growth with {STREAMS} slow streams", slow, "most", 20.0, "MiB"),
    ]


def logs_lines(found: Measured) -> list[str]:
    """Return a table that compares the speeds."""
    rates = [found.log_bytes / (1 << 20) / min(times) for times in found.logs]
    rows = [
        ["", "direct", "virtual node"],
        [
            f"log of {round(found.log_bytes / (1 << 20))} MiB, best of {ROUNDS}",
            *(f"{rate:.0f} MiB/s" for rate in rates),
        ],
        [f"exec, p50 of {EXECS}", *(f"{spread.p50 * 1000:.0f} ms" for spread in found.execs)],
        [f"exec, longest of {EXECS}", *(f"{spread.longest * 1000:.0f} ms" for spread in found.execs)],
    ]
    return ["", *report.table(rows)]


async def _prepare(lab: Lab, size: int) -> None:
    line = "x" * (LINE_BYTES - 1)
    script = f"yes {line} | head -c {size}; touch /done; exec sleep 100000"
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/done"]}, "periodSeconds": 1},
    }
    pod = {
        "metadata": {"name": POD, "annotations": {"multicluster/elect": ""}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    await lab.source.create(PODS, pod, NAMESPACE)
    await until("the log is written", lambda: _is_ready(lab.source), WRITE_SECONDS)


async def _is_ready(source: Client) -> bool:
    conditions = (await source.get(PODS, POD, NAMESPACE))["status"].get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


async def _measure(lab: Lab, size: int) -> Measured:
    (delegate,) = await lab.targets[0].list(PODS, NAMESPACE, labels=LABEL_PARENT_UID)
    places = ((TARGET, delegate["metadata"]["name"]), (SOURCE, POD))
    agent = lab.sandbox[SOURCE].pid("agent")
    if agent is None:
        raise BenchError(f"the agent of {SOURCE} does not run")
    log_times: tuple[list[float], list[float]] = ([], [])
    exec_times: tuple[list[float], list[float]] = ([], [])
    for _ in range(EXECS):
        for times, (cluster, pod) in zip(exec_times, places, strict=True):
            times.append(await _kubectl(lab, cluster, "exec", pod, "--", "true"))
    before = procfs.usage(agent).rss
    async with _watched(agent) as while_logs:
        for _ in range(ROUNDS):
            for times, (cluster, pod) in zip(log_times, places, strict=True):
                times.append(await _kubectl(lab, cluster, "logs", pod, size=size))
    async with _watched(agent) as while_streams:
        await _slow_streams(lab)
    execs = (Spread.of(exec_times[0]), Spread.of(exec_times[1]))
    return Measured(size, log_times, execs, before, while_logs.most, while_streams.most)


class _Memory:
    """Peak memory of a process, in KiB."""

    def __init__(self, pid: int) -> None:
        self.most = 0
        self._pid = pid

    def look(self) -> None:
        self.most = max(self.most, procfs.usage(self._pid).rss)

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def _watched(pid: int) -> AsyncIterator[_Memory]:
    memory = _Memory(pid)
    looking = asyncio.ensure_future(memory.run())
    try:
        yield memory
        memory.look()
    finally:
        looking.cancel()


async def _kubectl(lab: Lab, cluster: str, *arguments: str, size: int = 0) -> float:
    """Run kubectl and return the seconds that it took. Raises BenchError if a log is incomplete."""
    program = lab.sandbox.plan.programs["kubectl"]
    command = (program, f"--kubeconfig={lab.sandbox[cluster].kubeconfig}", f"--namespace={NAMESPACE}", *arguments)
    with tempfile.TemporaryFile() as errors:
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        taken = 0
        # Reads from the pipe: with /dev/null the benchmark could not check the length.
        while data := await process.stdout.read(1 << 20):
            taken += len(data)
        code = await process.wait()
        seconds = time.monotonic() - started
        if code or taken != size:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            raise BenchError(
                f"kubectl {' '.join(arguments)} in {cluster}: exit {code}, {taken} of {size} bytes: {said}"
            )
    return seconds


async def _slow_streams(lab: Lab) -> None:
    """Open many logs, read nothing for a while, then read them all."""
    answers = await asyncio.gather(*(_open(lab.source) for _ in range(STREAMS)))
    try:
        await asyncio.sleep(STALL_SECONDS)
        await asyncio.gather(*(_read(answer, 1 << 20) for answer in answers))
    finally:
        for answer in answers:
            answer.channel.abort()


async def _open(client: Client) -> Answer:
    path = PODS.path(NAMESPACE, POD, "log")
    channel = await connect(client.session)
    answer = await ask(client.session, channel, "GET", path, (), (), resource="pods/log", timeout=60)
    if answer.status != 200:
        raise BenchError(f"no log: {await answer.error()}")
    return answer


async def _read(answer: Answer, count: int) -> None:
    while count > 0 and (data := await answer.channel.read(1 << 16)):
        count -= len(data)
