"""Commands that run for minutes: their failures, and their end together with the process that started them."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from hack.lab.sandbox import commands, process
from hack.lab.sandbox.errors import BuildError, SandboxError
from hack.lab.sandbox.objects import REPOSITORY
from tests.waiting import until


async def test_a_failure_has_the_last_lines() -> None:
    with pytest.raises(BuildError, match=r"failed \(3\):\n    line 3\n(.*\n){6}    line 10$"):
        await commands.run(["sh", "-c", "for n in $(seq 10); do echo line $n >&2; done; exit 3"])


async def test_a_full_disk_names_the_folders_to_move() -> None:
    command = "echo 'write /tmp/x: no space left on device' >&2; for n in $(seq 20); do echo failed >&2; done; exit 1"
    with pytest.raises(SandboxError, match=r"a disk is full: write /tmp/x(.|\n)*\$FLOTILLA_CACHE.*\$GOCACHE.*\$TMPDIR"):
        await commands.run(["sh", "-c", command])


async def test_a_command_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = "import asyncio, sys; from hack.lab.sandbox import commands; asyncio.run(commands.run(sys.argv[1:]))"
    argv = ("sh", "-c", f"echo $$ > {pid_file}; exec sleep 600")
    starter = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *argv, cwd=REPOSITORY)
    await until(lambda: pid_file.exists() and pid_file.read_text() != "")
    starter.send_signal(signal.SIGKILL)
    await starter.wait()
    pid = int(pid_file.read_text())
    await until(lambda: not process.is_alive(pid))
