"""Standstills of an event loop, recorded by a real program."""

import os
import subprocess
import sys
import time
from pathlib import Path

from hack.lab.benchmarks.stillness import LEAST, longest, standstills
from hack.lab.sandbox.objects import REPOSITORY

SCRIPT = """
import asyncio, sys, time
async def main():
    for _ in range(20):
        await asyncio.sleep(0.001)
    began = time.thread_time()
    while time.thread_time() - began < 0.2:
        pass
    await asyncio.sleep(0.3)
asyncio.run(main())
sys.exit(7)
"""


def test_work_that_lets_no_other_task_run_is_a_standstill_and_waiting_is_none(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    path = tmp_path / "standstills"
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{tmp_path}"}
    before = time.monotonic()
    command = [sys.executable, "-m", "hack.lab.benchmarks.stillness", str(path), "program"]
    assert subprocess.run(command, env=environment).returncode == 7
    after = time.monotonic()
    found = standstills(path, before, after)
    assert longest(found) >= 0.2
    assert found[0].where in ("program:7 main", "program:8 main")
    assert len(path.read_text().splitlines()) == 1
    assert longest(standstills(path, after, after + 1)) == 0 < LEAST
