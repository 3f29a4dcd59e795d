"""Selection of tests by tier, and the reasons given in the marks of the whole suite."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import ALL, FIRST, FULL, runs

ROOT = Path(__file__).parents[1]
MARKS = [(), ("cluster",), ("full",), ("realnodes",), ("seldom",), ("full", "seldom"), ("realnodes", "seldom")]
CONFIG = """
[tool.pytest.ini_options]
markers = ["full(reason): later", "seldom: rarely", "alone: by itself", "realnodes: containers"]
"""
TESTS = """
import pytest

def test_usual(): pass
@pytest.mark.full("A variant of test_usual.")
def test_variant(): pass
@pytest.mark.realnodes
def test_containers(): pass
@pytest.mark.seldom
def test_rare(): pass
"""


@pytest.mark.parametrize("marks", MARKS)
def test_hack_test_and_full_together_run_each_test_once_that_is_not_seldom(marks: tuple[str, ...]) -> None:
    assert [runs(marks, FIRST), runs(marks, FULL)].count(True) == ("seldom" not in marks)


@pytest.mark.parametrize("marks", MARKS)
def test_all_runs_everything(marks: tuple[str, ...]) -> None:
    assert runs(marks, ALL)


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ((".",), 1),
        (("--full", "."), 2),
        (("--all", "."), 4),
        (("test_a.py",), 3),
        (("./test_a.py",), 3),
        (("--full", "test_a.py"), 3),
        (("test_a.py::test_rare",), 1),
        (("test_b.py", "test_a.py::test_rare"), 4),
    ],
    ids=["first", "full", "all", "a file", "a file by a path", "a file in another tier", "a test", "a file and a test"],
)
def test_a_run_selects_the_tests_of_its_tier(tmp_path: Path, arguments: tuple[str, ...], passed: int) -> None:
    assert f"{passed} passed" in _run(tmp_path, TESTS, *arguments)


@pytest.mark.parametrize("mark", ["full", "full()", 'full("no stop")'])
def test_a_test_that_is_left_out_without_a_reason_ends_the_run(tmp_path: Path, mark: str) -> None:
    text = f"import pytest\n@pytest.mark.{mark}\ndef test_variant(): pass\n"
    assert "test_a.py::test_variant: full needs one sentence as its reason" in _run(tmp_path, text, ".")


def _run(folder: Path, text: str, *arguments: str) -> str:
    (folder / "pyproject.toml").write_text(CONFIG)
    (folder / "test_a.py").write_text(text)
    if arguments[0] == "test_b.py":
        (folder / "test_b.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.tiers", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
