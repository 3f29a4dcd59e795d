"""hack/trace, from its options to a real moving pod."""

import subprocess
import sys

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.trace.__main__ import parse
from hack.lab.trace.report import LIMITS


@pytest.mark.parametrize("arguments", [["--mode", "x"], ["pod"]])
def test_what_makes_no_sense_is_refused_with_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(arguments)
    assert "usage: hack/trace" in capsys.readouterr().err


@pytest.mark.seldom
@pytest.mark.cluster
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", LIMITS)
def test_the_way_of_a_pod_is_told_function_by_function(mode: str) -> None:
    command = [sys.executable, "-m", "hack.lab.trace", "--mode", mode]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert f" modules (limit {LIMITS[mode]}), " in last
    assert "agent.scheduler.controller" in done.stdout
    assert "ProxyScheduler.reconcile" in done.stdout
