"""Pinning a process to cores of its own, as the kernel enforces it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.owncores import limits, own_cores

_BUSY = "import time\nbegan = time.monotonic()\nwhile time.monotonic() - began < 1: pass\nprint(time.process_time())"
_root = pytest.mark.skipif(os.geteuid() != 0, reason="control groups take root")


@pytest.mark.parametrize(
    ("version", "files"),
    [(1, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "60000"}), (2, {"cpu.max": "60000 100000"})],
)
def test_a_quota_is_written_as_the_kernel_reads_it(version: int, files: dict[str, str]) -> None:
    assert limits(60_000, version) == files


@_root
def test_a_process_gets_no_more_than_its_cores_and_nothing_is_left_of_the_groups() -> None:
    with own_cores(0.2) as cores:
        busy = subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE, text=True)
        cores.give("cd", [busy.pid])
        used, _ = busy.communicate()
        groups = [*Path("/sys/fs/cgroup").glob("**/flotilla-bench-*/cd")]
        assert len(groups) == 1
    assert float(used) < 0.6
    assert not groups[0].exists()
    assert not groups[0].parent.exists()


@_root
def test_a_process_that_is_gone_is_told() -> None:
    with own_cores(0.2) as cores, pytest.raises(BenchError, match="--own-cores takes root"):
        cores.give("cd", [2**22 + 1])
