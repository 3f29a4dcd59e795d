"""Interrupted test runs take down everything that their workers have started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTROLLER = """
from xdist.workermanage import NodeManager

NodeManager.EXIT_TIMEOUT = 0.2
"""
CLUSTER = """
import time
from pathlib import Path

import pytest

@pytest.fixture(scope="session")
def cluster():
    yield
    time.sleep(1)
    Path("is down").touch()

@pytest.mark.parametrize("number", range(600))
def test_something(cluster, number): time.sleep(0.1)
"""


@pytest.mark.parametrize("end", ["nobody reads", "terminated"])
def test_what_a_worker_has_started_is_taken_down(tmp_path: Path, end: str) -> None:
    (tmp_path / "conftest.py").write_text(CONTROLLER)
    (tmp_path / "test_cluster.py").write_text(CLUSTER)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "tests.workers", "-n", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        next(line for line in run.stdout if "PASSED" in line)
        if end == "nobody reads":
            run.stdout.close()
        else:
            run.terminate()
            run.stdout.read()
        assert run.wait(60) != 0
    assert (tmp_path / "is down").exists()
