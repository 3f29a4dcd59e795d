"""Hot spots from a real profile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.lab.benchmarks.profiled import LAUNCHER, hot_spots
from hack.lab.sandbox.objects import REPOSITORY

SCRIPT = """
import sys
import time
def busy():
    left = 1_000_000
    while left:
        left -= 1
def rest():
    time.sleep(2 * time.thread_time())
for _ in range(3):
    busy()
rest()
sys.exit(7)
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(SCRIPT)
    path = tmp_path / "out.profile"
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{tmp_path}"}
    ended = subprocess.run([sys.executable, "-m", LAUNCHER, str(path), "program"], env=environment)
    assert ended.returncode == 7
    return path


def test_functions_come_in_the_order_of_their_own_time_with_file_and_line(profile: Path) -> None:
    _, first, *_ = hot_spots(profile)
    assert first[0].startswith("busy")
    assert first[0].endswith("program.py:4")


def test_waiting_is_not_work(profile: Path) -> None:
    rows = hot_spots(profile, top=1000)
    waiting = next(row for row in rows if "time.sleep" in row[0])
    assert float(waiting[1]) < float(rows[1][1])


def test_only_as_many_functions_as_asked_for_are_told(profile: Path) -> None:
    assert len(hot_spots(profile, top=3)) == 4
