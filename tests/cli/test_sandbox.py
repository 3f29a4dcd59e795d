"""`flotilla sandbox`, as it is typed."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.sandbox import Sandbox, process
from agent.sandbox.plan import identity
from tests.cli.command import call
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

COMMAND = (sys.executable, "-m", "agent.cli", "sandbox")


def test_up_status_up_again_and_down(tmp_path: Path) -> None:
    directory = ("--dir", str(tmp_path / "sandbox"))
    up = ("up", *directory, "--clusters", "one", "--nodes", "kwok:1", "--no-agents", "--candidate-scheduler")
    try:
        # What it starts outlives the process.
        ended = subprocess.run((*COMMAND, *up), capture_output=True, text=True)
        wrote = f"one: export KUBECONFIG={tmp_path}/sandbox/one/kubeconfig\n"
        assert (ended.returncode, ended.stdout) == (0, wrote)
        assert "cluster one: ready at https://" in ended.stderr
        code, output, _ = call("sandbox", "status", *directory)
        assert code == 0
        assert "candidate-scheduler" in output
        asyncio.run(Sandbox.open(tmp_path / "sandbox").kill("one", "kwok"))
        code, output, _ = call("sandbox", "status", *directory, "-o", "json")
        assert code == 1
        assert {line["process"] for line in json.loads(output) if line["state"] == "dead"} == {"kwok"}
        assert call("sandbox", *up)[1].startswith("already up; started again: one/kwok\n")
        assert call("sandbox", *up)[1].startswith("already up; everything runs\n")
    finally:
        code, output, _ = call("sandbox", "down", *directory)
    assert (code, output) == (0, "down\n")
    assert os.listdir(tmp_path) == []
    assert call("sandbox", "down", *directory)[:2] == (0, f"there is no sandbox in {tmp_path}/sandbox\n")


async def test_an_interrupt_takes_down_what_was_started(tmp_path: Path) -> None:
    directory = tmp_path / "sandbox"
    words, pipe = ("up", "--dir", str(directory), "--no-agents"), asyncio.subprocess.PIPE
    command = await asyncio.create_subprocess_exec(*COMMAND, *words, stdout=pipe, stderr=pipe)
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
def test_mistakes_get_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], want_message: str) -> None:
    code, _, errors = call("sandbox", *arguments, "--dir", str(tmp_path / "sandbox"))
    assert code == 1
    assert want_message in errors
    assert len(errors.splitlines()) == 1
