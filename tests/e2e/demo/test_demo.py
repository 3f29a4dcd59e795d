"""Run `flotilla demo` as a process like a user; check its exit status and that it leaves nothing behind."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hack.lab.sandbox import process
from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.sandbox.plan import identity
from tests.cli.command import flotilla
from tests.sandbox.machine import leftovers
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.e2e, pytest.mark.timeout(400)]


Start = Callable[..., Awaitable[Process]]
_PROGRAM = "from agent.cli import main; from hack.lab.demo import run, steps; {changes}; main()"
ONE_TARGET = "run.TARGETS = ('us',)"
FEW_PODS = "steps.PODS, steps.SCALED = 5, 10"
"""Changes for a cheaper demo. Its promises do not depend on the numbers of clusters and pods."""


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Function that starts a demo in a directory; demos that still run are ended after the test."""
    started: list[Process] = []

    async def start(directory: Path, *arguments: str, changes: str = "") -> Process:
        program = ("-c", _PROGRAM.format(changes=changes)) if changes else ("-m", "agent.cli")
        command = (sys.executable, *program, "demo", "--dir", str(directory), *arguments)
        demo = await asyncio.create_subprocess_exec(*command, cwd=REPOSITORY, stdout=PIPE, stderr=STDOUT)
        started.append(demo)
        return demo

    yield start
    for demo in started:
        if demo.returncode is None:
            demo.terminate()
            await demo.communicate()


async def read_until(demo: Process, text: str) -> str:
    """Return the output up to the line with this text; fail if the output ends before."""
    assert demo.stdout is not None
    told = ""
    async for line in demo.stdout:
        told += line.decode()
        if text in told:
            return told
    pytest.fail(f"{text!r} does not appear in:\n{told}")


@pytest.mark.seldom
async def test_once_comes_true_and_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    demo = await start(directory, "--once")
    output, _ = await demo.communicate()
    assert demo.returncode == 0, output.decode()
    assert b"All 7 steps succeeded" in output
    assert leftovers(directory) == []


@pytest.mark.full("A variant of the demo, which ends in another way.")
@pytest.mark.parametrize(
    ("number", "want"),
    [
        pytest.param(signal.SIGKILL, ["agent of cd has ended", "target us is not ready"], id="an agent that died"),
        pytest.param(signal.SIGSTOP, ["target us is not ready"], id="an agent that hangs", marks=pytest.mark.seldom),
    ],
)
async def test_a_step_that_does_not_come_true_is_named_with_the_reason(
    start: Start, tmp_path: Path, number: signal.Signals, want: list[str]
) -> None:
    directory = tmp_path / "demo"
    demo = await start(directory, "--once", "--patience", "5", changes=ONE_TARGET)
    await read_until(demo, "2. Join them")
    os.kill(int((directory / "cd" / "agent.pid").read_text()), number)
    output, _ = await demo.communicate()
    assert demo.returncode == 1, output.decode()
    assert ": failed after" in output.decode()
    assert [reason for reason in want if reason not in output.decode()] == []
    assert leftovers(directory) == []


@pytest.mark.seldom
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("flotilla sandbox down", id="while clusters come up"),
        pytest.param("kubectl apply -f web.yaml", id="while pods come up"),
    ],
)
async def test_sigterm_takes_everything_down(start: Start, tmp_path: Path, moment: str) -> None:
    directory = tmp_path / "demo"
    demo = await start(directory)
    await read_until(demo, moment)
    await until(lambda: len(process.find_all(identity(directory))) >= 3, 60)
    demo.send_signal(signal.SIGTERM)
    output, _ = await demo.communicate()
    assert demo.returncode == 130, output.decode()
    assert leftovers(directory) == []


async def test_without_once_it_stays_up_until_an_interrupt_and_kubectl_works_as_printed(
    start: Start, tmp_path: Path
) -> None:
    directory = tmp_path / "demo"
    demo = await start(directory, changes=FEW_PODS)
    told = await read_until(demo, "flotilla explain pod hello")
    assert "All 7 steps succeeded" in told
    commands = told.partition("in another terminal:")[2]
    shell = await asyncio.create_subprocess_exec("bash", "-euc", commands, stdout=PIPE, stderr=STDOUT)
    output, _ = await shell.communicate()
    assert shell.returncode == 0, output.decode()
    assert b"pod/hello created" in output
    assert b"target" in output
    demo.send_signal(signal.SIGINT)
    output, _ = await demo.communicate()
    assert demo.returncode == 0, output.decode()
    assert leftovers(directory) == []


async def test_a_directory_that_exists_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    code, _, errors = await flotilla("demo", "--once", "--dir", str(tmp_path))
    assert code == 1
    assert "choose another --dir" in errors
    assert (tmp_path / "mine").exists()
