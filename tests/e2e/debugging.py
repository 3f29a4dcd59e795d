"""kubectl for the source of a fleet with real nodes, and a pod to debug."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import pty
import shutil
import signal
import struct
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from agent.api.kinds import LEASES, PODS
from agent.api.names import LEASE_CONTROLLERS, PREFIX
from agent.base.clock import parse
from hack.lab.sandbox import faults, process
from hack.lab.sandbox.objects import REPOSITORY
from tests.e2e.fleet import Fleet

Raw = dict[str, Any]

IMAGE = "flotilla.local/busybox:1"
SCRIPT = """
i=0; while [ $i -lt 20 ]; do echo line $i; i=$((i+1)); done
mkdir /www; echo hello > /www/index.html; httpd -p 8080 -h /www; httpd -p 8081 -h /www
while read x; do echo got $x; done
exec sleep 100000
"""
USED_MIB = 24
USES = f"dd if=/dev/zero of=/dev/shm/used bs=1M count={USED_MIB} 2>/dev/null"
"""Allocate real memory in a container."""
RESTARTED = 'if [ -e /data/once ]; then exec sleep 100000; fi; touch /data/once; echo "the first time"; exit 1'

_SECOND = "second-"
"""Identity prefix of a second agent replica; a random part follows."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl in one namespace of the source."""

    program: str
    kubeconfig: Path
    namespace: str
    variables: tuple[tuple[str, str], ...] = ()
    """Extra environment variables."""

    def command(self, *arguments: str) -> tuple[str, ...]:
        return (self.program, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments)

    async def start(self, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        environment = {**os.environ, **dict(self.variables)}
        options = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "env": environment, **options}
        return await asyncio.create_subprocess_exec(*self.command(*arguments), **options)

    async def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        """Run kubectl and return its exit code, output and errors."""
        process = await self.start(*arguments)
        output, errors = await process.communicate(stdin)
        return process.returncode or 0, output.decode(), errors.decode()

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        code, output, errors = await self.run(*arguments, stdin=stdin)
        assert code == 0, errors
        return output


def another_kubectl(known: str) -> str | None:
    """Return the machine's own kubectl if it differs from `known`, else None. Prefers version 1.32 next to a
    version switcher."""
    found = shutil.which("kubectl")
    if found is None or os.path.samefile(found, known):
        return None
    return shutil.which("kubectl.1.32", path=os.path.dirname(os.path.realpath(found))) or found


def web() -> Raw:
    common = {"image": IMAGE, "imagePullPolicy": "Never", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}

    def container(name: str, script: str, **more: Any) -> Raw:
        return {"name": name, "command": ["sh", "-c", script], **common, **more}

    ready = {"httpGet": {"port": 8081, "path": "/"}, "periodSeconds": 1}
    return {
        "metadata": {"name": "web", "annotations": {PREFIX + "elect": ""}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "initContainers": [container("init", "echo prepared")],
            "containers": [
                container("web", SCRIPT, stdin=True, readinessProbe=ready),
                container("side", f"{USES}; while true; do date; sleep 1; done"),
                container("restarted", RESTARTED),
            ],
        },
    }


async def is_ready(fleet: Fleet, namespace: str) -> bool:
    status = (await fleet.source.get(PODS, "web", namespace))["status"]
    statuses = status.get("containerStatuses") or ()
    restarted = any(each["name"] == "restarted" and each["restartCount"] for each in statuses)
    return restarted and len(statuses) == 3 and all(each["ready"] for each in statuses)


@contextlib.asynccontextmanager
async def terminal(kubectl: Kubectl, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run kubectl in a terminal whose window changes its size. The shell `sh` in it has to notice each change."""
    ours, theirs = pty.openpty()
    try:
        resize(ours, 30, 90)
        # A session of its own makes this its controlling terminal, so that the kernel signals size changes
        # (SIGWINCH).
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        process = await kubectl.start(*arguments, **streams, preexec_fn=own_terminal)
        os.close(theirs)
        reader = await reading(ours)
        for rows, columns in ((30, 90), (41, 120)):
            resize(ours, rows, columns)
            await until_size(ours, reader, f"{rows} {columns}")
        os.write(ours, b"exit 5\n")
        yield process
    finally:
        os.close(ours)


def own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def reading(terminal: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(terminal), "rb", buffering=0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def until_size(terminal: int, reader: asyncio.StreamReader, wanted: str) -> None:
    seen = b""
    async with asyncio.timeout(30):
        while wanted.encode() not in seen:
            os.write(terminal, b"stty size\n")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    while wanted.encode() not in seen:
                        seen += await reader.read(1000)


async def until_forwarded(process: asyncio.subprocess.Process, count: int) -> None:
    assert process.stdout is not None
    found = 0
    while found < count:
        line = await process.stdout.readline()
        assert line
        found += b"127.0.0.1" in line


async def page(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    found = await reader.read()
    writer.close()
    await writer.wait_closed()
    return found


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


LINE = "x" * 1023


def chatty(size: int) -> Raw:
    """Return a pod that writes `size` bytes, a multiple of 1 KiB, to its log and completes."""
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never"}
    script = f"yes {LINE} | head -c {size}"
    return {
        "metadata": {"name": "chatty", "annotations": {PREFIX + "elect": ""}},
        "spec": {"restartPolicy": "Never", "containers": [container | {"command": ["sh", "-c", script]}]},
    }


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def command_line(pid: int | None) -> list[str]:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


async def second_leads(fleet: Fleet, cluster: str) -> bool:
    """Check that a replica started by `another_agent` holds the lease, even if it has been killed."""
    return (await _lease(fleet, cluster)).get("holderIdentity", "").startswith(_SECOND)


async def _lease(fleet: Fleet, cluster: str) -> Raw:
    lease = await fleet.clients[cluster].get(LEASES, LEASE_CONTROLLERS, fleet.home)
    return dict(lease["spec"])


async def _first_leads(fleet: Fleet, cluster: str) -> None:
    """Wait until the first replica leads: the lease of a killed replica has to expire first."""
    began = datetime.now(UTC)

    async def probe() -> bool:
        lease = await _lease(fleet, cluster)
        holder = lease.get("holderIdentity", "")
        return holder and not holder.startswith(_SECOND) and parse(lease["renewTime"]) > began

    await fleet.until("the first replica leads", probe)


@contextlib.asynccontextmanager
async def another_agent(fleet: Fleet, cluster: str) -> AsyncIterator[str]:
    """Run a second replica of a cluster's agent with its own IP address, like another pod, and yield the
    address.

    The first replica leads at the beginning. At the end it is restarted if it was killed, and takes over.
    """
    each = fleet.sandbox[cluster]
    plan, first = each.runner.cluster, each.pid("agent")
    address = each.address.rpartition(".")[0] + ".250"
    command = [part.replace(each.address, address) for part in command_line(first)]
    command.append(f"--identity={_SECOND}{uuid4().hex[:8]}")
    await _first_leads(fleet, cluster)
    await faults.inside(plan, "ip", "address", "add", f"{address}/24", "dev", "eth0")
    pid = process.start(
        command,
        process.environment(os.environ, each.runner.mark("agent-2"), str(REPOSITORY)),
        log=each.directory / "agent-2.log",
        pid_file=each.directory / "agent-2.pid",
        namespace=plan.namespace,
    )
    try:
        yield address
    finally:
        os.kill(pid, signal.SIGKILL)
        await process.wait_gone([pid], 10)
        await fleet.sandbox.start(cluster, "agent")
        await faults.inside(plan, "ip", "address", "delete", f"{address}/24", "dev", "eth0")
