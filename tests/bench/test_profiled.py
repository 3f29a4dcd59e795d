"""Hot spots from a profile that the profiler really wrote."""

import subprocess
import sys
from pathlib import Path

import pytest

from hack.benchmarks.profiled import hot_spots

SCRIPT = """
import select
def busy():
    return sum(i * i for i in range(200_000))
def rest():
    with select.epoll() as waiting:
        waiting.poll(0.3)
for _ in range(3):
    busy()
rest()
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = tmp_path / "out.profile"
    subprocess.run([sys.executable, "-m", "cProfile", "-o", str(path), str(script)], check=True)
    return path


def test_functions_come_in_the_order_of_their_own_time_with_file_and_line(profile: Path) -> None:
    _, first, *_ = hot_spots(profile)
    assert first[0].startswith("<genexpr>")
    assert first[0].endswith("script.py:4")


def test_waiting_is_not_work(profile: Path) -> None:
    assert not any("epoll" in row[0] and "poll'" in row[0] for row in hot_spots(profile, top=1000))


def test_only_as_many_functions_as_asked_for_are_told(profile: Path) -> None:
    assert len(hot_spots(profile, top=3)) == 4
