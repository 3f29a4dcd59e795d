"""`flotilla sandbox`, as it is typed."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from agent.sandbox import Sandbox, process
from agent.sandbox.plan import identity
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

COMMAND = (sys.executable, "-m", "agent.cli", "sandbox")


async def start(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*COMMAND, *arguments, stdout=pipe, stderr=pipe)


async def run(*arguments: str) -> tuple[int, str, str]:
    command = await start(*arguments)
    output, errors = await command.communicate()
    assert command.returncode is not None
    return command.returncode, output.decode(), errors.decode()


async def test_up_status_up_again_and_down(tmp_path: Path) -> None:
    directory = ("--dir", str(tmp_path / "sandbox"))
    up = ("up", *directory, "--clusters", "one", "--nodes", "kwok:1", "--no-agents", "--candidate-scheduler")
    try:
        code, output, errors = await run(*up)
        assert (code, output) == (0, f"one: export KUBECONFIG={tmp_path}/sandbox/one/kubeconfig\n")
        assert "cluster one: ready at https://" in errors
        code, output, _ = await run("status", *directory)
        assert code == 0
        assert "candidate-scheduler" in output
        sandbox = Sandbox.open(tmp_path / "sandbox")
        await sandbox.kill("one", "kwok")
        code, output, _ = await run("status", *directory, "-o", "json")
        assert code == 1
        assert {line["process"] for line in json.loads(output) if line["state"] == "dead"} == {"kwok"}
        assert (await run(*up))[1].startswith("already up; started again: one/kwok\n")
        assert (await run(*up))[1].startswith("already up; everything runs\n")
    finally:
        code, output, _ = await run("down", *directory)
    assert (code, output) == (0, "down\n")
    assert os.listdir(tmp_path) == []
    assert (await run("down", *directory))[:2] == (0, f"there is no sandbox in {tmp_path}/sandbox\n")


async def test_an_interrupt_takes_down_what_was_started(tmp_path: Path) -> None:
    directory = tmp_path / "sandbox"
    command = await start("up", "--dir", str(directory), "--no-agents")
    await until(lambda: len(process.find_all(identity(directory))) >= 3)
    command.terminate()
    _, errors = await command.communicate()
    assert command.returncode == 130
    assert "interrupted" in errors.decode()
    assert process.find_all(identity(directory)) == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "want_message"),
    [
        (("up", "--nodes", "real:2"), "write real:1"),
        (("up", "--clusters", "A"), "cluster name 'A'"),
        (("status",), "there is no sandbox in"),
    ],
)
async def test_mistakes_get_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], want_message: str) -> None:
    code, _, errors = await run(*arguments, "--dir", str(tmp_path / "sandbox"))
    assert code == 1
    assert want_message in errors
    assert len(errors.splitlines()) == 1
