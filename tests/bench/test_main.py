"""The command line of hack/bench."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hack.lab.benchmarks.__main__ import INTERRUPTED, parse
from hack.lab.benchmarks.burst import NODES_EACH, pods_per_node
from hack.lab.sandbox import process
from hack.lab.sandbox.objects import REPOSITORY


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["burst", "--pods", "0"],
        ["burst", "--mode", "x"],
        ["burst", "--own-cores", "0"],
        ["burst", "--own-cores", "9999"],
        ["burst", "--pairs", "0"],
        ["mixed", "--big", "0"],
        ["applications", "--clusters", "0"],
    ],
)
def test_what_makes_no_sense_is_refused_with_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(arguments)
    assert "usage: hack/bench" in capsys.readouterr().err


def test_every_cluster_alone_has_room_for_all_pods() -> None:
    assert pods_per_node(5) == 110
    assert pods_per_node(5000) * NODES_EACH >= 5000


@pytest.mark.cluster
def test_an_interrupted_benchmark_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hack.lab.benchmarks", "burst", "--pods", "5"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True) as bench:
        try:
            while not list(tmp_path.glob("*/*/kube-apiserver.pid")):
                assert bench.poll() is None
                time.sleep(0.05)
            pids = [int(path.read_text()) for path in tmp_path.glob("*/*/*.pid")]
            assert pids
            bench.send_signal(signal.SIGINT)
            _, errors = bench.communicate()
        finally:
            bench.send_signal(signal.SIGTERM)
    assert bench.returncode == INTERRUPTED
    assert "interrupted" in errors
    assert list(tmp_path.iterdir()) == []
    assert not any(process.is_alive(pid) for pid in pids)
