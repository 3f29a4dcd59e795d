"""Promise 30: a user debugs a proxy pod as any pod, with kubectl against the source, wherever it runs."""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import pty
import shutil
import struct
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CLUSTER_ROLES, PODS
from agent.api.names import PREFIX, virtual_node
from agent.api.roles import SOURCE_ROLE, source_cluster_role
from agent.sandbox import Sandbox
from tests.e2e.conftest import AGENT_FLAGS, fleet_of
from tests.e2e.fleet import Fleet
from tests.runtime.test_health import free_port
from tests.sandbox.realnode.conftest import why_not

pytestmark = [pytest.mark.realnodes]

Raw = dict[str, Any]
IMAGE = "flotilla.local/busybox:1"
SCRIPT = """
i=0; while [ $i -lt 20 ]; do echo line $i; i=$((i+1)); done
mkdir /www; echo hello > /www/index.html; httpd -p 8080 -h /www; httpd -p 8081 -h /www
while read x; do echo got $x; done
exec sleep 100000
"""
RESTARTED = 'if [ -e /data/once ]; then exec sleep 100000; fi; touch /data/once; echo "the first time"; exit 1'
FILE_BYTES = 100 << 20


@dataclass(frozen=True)
class Kubectl:
    """One kubectl, in one namespace of the source."""

    program: str
    kubeconfig: Path
    namespace: str

    def command(self, *arguments: str) -> tuple[str, ...]:
        return (self.program, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments)

    async def start(self, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        options = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
        return await asyncio.create_subprocess_exec(*self.command(*arguments), **options)

    async def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        """Exit code, output and errors."""
        process = await self.start(*arguments)
        output, errors = await process.communicate(stdin)
        return process.returncode or 0, output.decode(), errors.decode()

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        code, output, errors = await self.run(*arguments, stdin=stdin)
        assert code == 0, errors
        return output


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def real(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Source cd and target us, each with a real node."""
    if reason := why_not():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("kubelet") / "two"
    async with fleet_of(Sandbox(directory, ("cd", "us"), "real:1", agent_flags=AGENT_FLAGS, audit=True)) as fleet:
        yield fleet


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(real: Fleet) -> AsyncIterator[str]:
    """A namespace with a pod `web` that runs in the target."""
    async with real.namespace(("us",)) as name:
        await real.source.create(PODS, web(), name)
        await real.until("web is ready", lambda: is_ready(real, name), about=name, seconds=120)
        yield name


@pytest.fixture(params=["of the sandbox", "of the machine"])
def kubectl(request: pytest.FixtureRequest, real: Fleet, place: str) -> Kubectl:
    program = real.sandbox.plan.programs["kubectl"]
    if request.param == "of the machine":
        other = shutil.which("kubectl")
        if other is None or os.path.samefile(other, program):
            pytest.skip("the machine has no kubectl of its own")
        program = other
    return Kubectl(program, real.sandbox["cd"].kubeconfig, place)


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
                container("side", "while true; do date; sleep 1; done"),
                container("restarted", RESTARTED),
            ],
        },
    }


async def is_ready(fleet: Fleet, namespace: str) -> bool:
    status = (await fleet.source.get(PODS, "web", namespace))["status"]
    statuses = status.get("containerStatuses") or ()
    restarted = any(each["name"] == "restarted" and each["restartCount"] for each in statuses)
    return restarted and len(statuses) == 3 and all(each["ready"] for each in statuses)


async def test_logs_with_every_option(kubectl: Kubectl) -> None:
    everything = "".join(f"line {number}\n" for number in range(20))
    assert (await kubectl("logs", "web", "-c", "web")).startswith(everything)
    assert await kubectl("logs", "web", "-c", "init") == "prepared\n"
    assert await kubectl("logs", "web", "-c", "restarted", "--previous") == "the first time\n"
    assert await kubectl("logs", "web", "-c", "init", "--tail=0") == ""
    assert await kubectl("logs", "web", "-c", "web", "--limit-bytes=10") == everything[:10]
    assert len((await kubectl("logs", "web", "-c", "side", "--since=3s")).splitlines()) <= 4
    stamped = (await kubectl("logs", "web", "-c", "side", "--timestamps", "--tail=3")).splitlines()
    assert len(stamped) == 3
    time = stamped[1].split()[0]
    since = (await kubectl("logs", "web", "-c", "side", "--timestamps", f"--since-time={time}")).splitlines()
    assert since[0].split()[0] >= time[:19]
    together = await kubectl("logs", "web", "--all-containers", "--prefix", "--tail=1")
    assert "[pod/web/init] prepared" in together


async def test_logs_that_are_followed_come_as_they_are_written(kubectl: Kubectl) -> None:
    process = await kubectl.start("logs", "-f", "web", "-c", "side", "--tail=1")
    assert process.stdout is not None
    async with asyncio.timeout(20):
        lines = [await process.stdout.readline() for _ in range(4)]
    assert len(set(lines)) == 4
    process.terminate()
    await process.communicate()


async def test_exec_has_streams_and_exit_codes(kubectl: Kubectl) -> None:
    script = "cat; echo wrong >&2; exit 7"
    code, output, errors = await kubectl.run("exec", "-i", "web", "-c", "side", "--", "sh", "-c", script, stdin=b"in")
    assert (code, output) == (7, "in")
    assert "wrong" in errors
    code, _, errors = await kubectl.run("exec", "web", "-c", "nope", "--", "true")
    assert code == 1
    assert "nope" in errors


async def test_a_terminal_follows_the_size_of_its_window(kubectl: Kubectl) -> None:
    ours, theirs = pty.openpty()
    try:
        resize(ours, 30, 90)
        # Its own session, so that the terminal is its own and tells it of a new size.
        shell = ("exec", "-it", "web", "-c", "side", "--", "sh")
        process = await kubectl.start(*shell, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=own_terminal)
        os.close(theirs)
        reader = await reading(ours)
        for rows, columns in ((30, 90), (41, 120)):
            resize(ours, rows, columns)
            await until_size(ours, reader, f"{rows} {columns}")
        os.write(ours, b"exit 5\n")
        async with asyncio.timeout(20):
            assert await process.wait() == 5
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


async def test_attach_talks_to_the_process_of_the_container(kubectl: Kubectl) -> None:
    process = await kubectl.start("attach", "-i", "web", "-c", "web")
    assert process.stdin is not None
    assert process.stdout is not None
    seen = b""
    async with asyncio.timeout(20):
        while b"got word" not in seen:
            # What comes before it is attached gets no echo.
            process.stdin.write(b"word\n")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    seen += await process.stdout.readline()
    process.kill()
    await process.communicate()


async def test_ports_are_forwarded_for_many_connections(kubectl: Kubectl) -> None:
    ports = [free_port(), free_port()]
    process = await kubectl.start("port-forward", "pod/web", f"{ports[0]}:8080", f"{ports[1]}:8081")
    try:
        async with asyncio.timeout(30):
            await until_forwarded(process, 2)
            pages = await asyncio.gather(*(page(port) for port in ports for _ in range(25)))
        assert all(found.endswith(b"hello\n") for found in pages)
    finally:
        process.kill()
        await process.communicate()


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


async def test_a_large_file_is_copied_both_ways(kubectl: Kubectl, tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * (FILE_BYTES >> 20)
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(data)
    await kubectl("cp", str(sent), "web:/tmp/file", "-c", "side")
    assert (await kubectl("exec", "web", "-c", "side", "--", "md5sum", "/tmp/file")).split()[0] == md5(data)
    await kubectl("cp", "web:/tmp/file", str(received), "-c", "side")
    assert md5(received.read_bytes()) == md5(data)
    await kubectl("exec", "web", "-c", "side", "--", "rm", "/tmp/file")


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


async def test_a_client_that_is_killed_ends_what_it_ran(kubectl: Kubectl, real: Fleet) -> None:
    before = connections(real)
    script = "echo started; cat > /dev/null; echo gone > /tmp/gone"
    process = await kubectl.start("exec", "-i", "web", "-c", "side", "--", "sh", "-c", script)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"started\n"
    process.kill()
    await process.communicate()

    async def noticed() -> bool:
        return (await kubectl.run("exec", "web", "-c", "side", "--", "rm", "/tmp/gone"))[0] == 0

    await real.until("the far side has noticed", noticed)

    async def closed() -> bool:
        return connections(real) <= before + 2

    await real.until("its connections are closed", closed)


def connections(real: Fleet) -> int:
    """Open files of the source's agent."""
    return len(os.listdir(f"/proc/{real.sandbox['cd'].pid('agent')}/fd"))


async def test_a_node_tells_of_its_pods_and_of_their_usage(kubectl: Kubectl, place: str) -> None:
    node = f"/api/v1/nodes/{virtual_node(place, 'us')}/proxy"
    assert await kubectl("get", "--raw", f"{node}/healthz") == "ok"
    pods = json.loads(await kubectl("get", "--raw", f"{node}/pods"))
    assert [pod["metadata"]["name"] for pod in pods["items"]] == ["web"]
    # The target serves no metrics.k8s.io: nothing is known, and nothing is wrong.
    assert json.loads(await kubectl("get", "--raw", f"{node}/stats/summary"))["pods"] == []
    assert "resource_scrape_error 0" in await kubectl("get", "--raw", f"{node}/metrics/resource")


async def test_a_verb_that_the_target_does_not_grant_is_named(kubectl: Kubectl, real: Fleet, place: str) -> None:
    role = source_cluster_role()
    reduced = [rule for rule in role["rules"] if not {"pods/exec", "pods/log"} & set(rule["resources"])]
    us = real.clients["us"]
    await us.patch(CLUSTER_ROLES, SOURCE_ROLE, {"rules": reduced})
    try:

        async def refused() -> bool:
            _, _, errors = await kubectl.run("exec", "web", "-c", "side", "--", "true")
            return 'may not "create" pods/exec' in errors and "target us" in errors

        await real.until("exec names the verb", refused)
        _, _, errors = await kubectl.run("logs", "web", "-c", "side", "--tail=1")
        assert 'may not "get" pods/log' in errors
    finally:
        await us.patch(CLUSTER_ROLES, SOURCE_ROLE, {"rules": role["rules"]})

    async def allowed() -> bool:
        return (await kubectl.run("exec", "web", "-c", "side", "--", "true"))[0] == 0

    await real.until("exec is allowed again", allowed)


async def test_a_target_that_is_away_is_named(kubectl: Kubectl, real: Fleet) -> None:
    await real.sandbox.set_link("us", up=False)
    try:
        _, _, errors = await kubectl.run("logs", "web", "-c", "side", "--tail=1")
        assert "target us does not answer" in errors
        code, _, errors = await kubectl.run("exec", "web", "-c", "side", "--", "true")
        assert code == 1
        assert "target us does not answer" in errors
    finally:
        await real.sandbox.set_link("us", up=True)

    async def back() -> bool:
        return (await kubectl.run("exec", "web", "-c", "side", "--", "true"))[0] == 0

    await real.until("exec works again", back)


async def test_another_leader_takes_over_with_its_own_certificate(kubectl: Kubectl, real: Fleet) -> None:
    await real.sandbox.kill("cd", "agent")
    await real.sandbox.start("cd", "agent")

    async def works() -> bool:
        return (await kubectl.run("logs", "web", "-c", "side", "--tail=1"))[0] == 0

    await real.until("logs work again", works)
