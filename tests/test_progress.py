"""Progress of a run, and the estimate of its remaining time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.progress import line, seconds_left

ROOT = Path(__file__).parents[1]
SLOW_FIRST = [200.0, 300.0, 350.0, 380.0, 400.0]
"""Seconds after which an earlier run had completed a fifth, two fifths ... of its tests."""


@pytest.mark.parametrize(
    ("done", "elapsed", "left"),
    [(0, 0.0, 400.0), (20, 200.0, 200.0), (60, 350.0, 50.0), (60, 700.0, 100.0), (100, 400.0, 0.0)],
    ids=["at the beginning", "after the slow ones", "near the end", "on a machine half as fast", "at the end"],
)
def test_the_time_left_follows_an_earlier_run(done: int, elapsed: float, left: float) -> None:
    assert seconds_left(done, 100, elapsed, SLOW_FIRST) == pytest.approx(left)


def test_without_an_earlier_run_the_time_left_is_unknown() -> None:
    assert seconds_left(50, 100, 60.0, []) is None


def test_a_line_tells_tests_time_and_failures() -> None:
    assert line(50, 200, 2, 65.0, 130.0) == " 25 %  50 of 200 tests, 1:05 so far, about 2:10 left, 2 failed"
    assert line(200, 200, 0, 65.0, 0.0) == "100 %  200 of 200 tests, 1:05 so far"


def test_a_failure_is_shown_before_the_run_ends(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_fails(): assert 1 == 2\ndef test_passes(): pass\n")
    command = [sys.executable, "-m", "pytest", "--progress", "-p", "tests.tiers", "-p", "tests.progress", "-p", "xdist"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    shown = done.stdout.index("FAILED test_a.py::test_fails (call)")
    assert shown < done.stdout.index("100 %  2 of 2 tests") < done.stdout.index("= FAILURES =")
