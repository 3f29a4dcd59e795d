"""The second run of `hack/test` repeats failed tests; dependent tests start at the beginning of their file."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIG = """
[tool.pytest.ini_options]
markers = ["story: tests of a file go on from each other"]
"""
ALONE = """
import os, pytest

def test_passes(): pass
@pytest.mark.parametrize("of", ["a::b", "[c]"])
def test_fails(of): assert "LATER" in os.environ
"""
STORY = """
import os, pytest

pytestmark = pytest.mark.story
begun = []
def test_begins(): begun.append(1)
def test_goes_on(): assert begun and "LATER" in os.environ
"""


def look(folder: Path, *arguments: str, **environment: str) -> str:
    """Run pytest in a folder and return its output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.second_look", *arguments]
    path = {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | path | environment, capture_output=True, text=True, check=False
    )
    return done.stdout


def written(folder: Path, **files: str) -> Path:
    (folder / "pyproject.toml").write_text(CONFIG)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    return folder


def test_only_what_failed_is_run_once_more_and_told_to_be_flaky(tmp_path: Path) -> None:
    folder = written(tmp_path, alone=ALONE)
    assert "2 failed, 1 passed" in look(folder, ".")
    again = look(folder, "--second-look", ".", LATER="1")
    assert "2 passed" in again
    assert "2 flaky: test_alone.py::test_fails[a::b], test_alone.py::test_fails[[c]]" in again


def test_a_story_is_told_from_its_beginning(tmp_path: Path) -> None:
    folder = written(tmp_path, story=STORY)
    assert "1 failed, 1 passed" in look(folder, ".")
    again = look(folder, "--second-look", ".", LATER="1")
    assert "2 passed" in again
    assert "1 flaky: test_story.py::test_goes_on" in again


def test_where_nothing_has_failed_nothing_is_run(tmp_path: Path) -> None:
    folder = written(tmp_path, alone=ALONE)
    assert "3 passed" in look(folder, ".", LATER="1")
    assert "no tests ran" in look(folder, "--second-look", ".")


def test_a_file_that_cannot_be_imported_fails_in_the_second_look_too(tmp_path: Path) -> None:
    folder = written(tmp_path, alone=ALONE, broken="import does_not_exist")
    assert "2 failed, 1 passed, 1 error" in look(folder, "-n1", "-p", "xdist", ".")
    again = look(folder, "--second-look", ".", LATER="1")
    assert "1 error" in again


def test_what_is_not_run_again_is_not_told_to_be_flaky(tmp_path: Path) -> None:
    broken = 'import os\n\nassert "LATER" not in os.environ\n\ndef test_fails(): assert False\n'
    folder = written(tmp_path, alone=ALONE, broken=broken)
    assert "3 failed, 1 passed" in look(folder, ".")
    again = look(folder, "--second-look", ".", LATER="1")
    assert "1 error" in again
    assert "FLAKY, passed" not in again
