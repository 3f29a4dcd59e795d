"""`flotilla sandbox`: the command only; tests/sandbox/test_sandbox.py covers the clusters."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hack.lab.sandbox import Sandbox, process
from hack.lab.sandbox.plan import identity
from tests.cli.command import call
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

COMMAND = (sys.executable, "-m", "agent.cli", "sandbox")


async def test_an_interrupt_takes_down_what_was_started(tmp_path: Path) -> None:
    directory = tmp_path / "sandbox"
    words, pipe = ("up", "--dir", str(directory), "--no-agents"), asyncio.subprocess.PIPE
    command = await asyncio.create_subprocess_exec(*COMMAND, *words, stdout=pipe, stderr=pipe)
    await until(lambda: len(process.find_all(identity(directory))) >= 3)
    command.terminate()
    _, errors = await command.communicate()
    assert command.returncode == 130
    assert "interrupted" in errors.decode()
    assert process.find_all(identity(directory)) == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "want_message"),
    [
        (("up", "--nodes", "real:2"), "write real:1"),
        (("up", "--clusters", "A"), "cluster name 'A'"),
        (("status",), "there is no sandbox in"),
    ],
)
def test_mistakes_get_one_clear_line(tmp_path: Path, arguments: tuple[str, ...], want_message: str) -> None:
    code, _, errors = call("sandbox", *arguments, "--dir", str(tmp_path / "sandbox"))
    assert code == 1
    assert want_message in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "want_networks"),
    [
        ((), ["10.224.0.0/16", "10.225.0.0/16"]),
        (("--pod-network", "own"), ["10.224.0.0/16", "10.225.0.0/16"]),
        (("--pod-network", "same"), ["10.224.0.0/16", "10.224.0.0/16"]),
    ],
)
def test_clusters_are_planned_with_the_pod_networks_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], want_networks: list[str]
) -> None:
    async def nothing(sandbox: Sandbox) -> None:
        """Start no process."""

    monkeypatch.setattr(Sandbox, "_start_all", nothing)
    directory = ("--dir", str(tmp_path / "sandbox"))
    code, _, errors = call("sandbox", "up", "--clusters", "cd,us", "--network", "loopback", *given, *directory)
    assert (code, errors) == (0, "")
    planned = Sandbox.open(tmp_path / "sandbox").plan
    assert [cluster.pod_ranges[0] for cluster in planned.clusters] == want_networks
    assert call("sandbox", "down", *directory)[0] == 0


def test_ipv6_on_loopback_is_refused_with_the_reason(tmp_path: Path) -> None:
    directory = ("--dir", str(tmp_path / "sandbox"))
    code, _, errors = call("sandbox", "up", "--network", "loopback", "--ip-family", "dual", *directory)
    assert code == 1
    assert "IPv6 needs network namespaces" in errors or "this machine has no IPv6" in errors
    assert "use --ip-family ipv4" in errors
    assert not (tmp_path / "sandbox").exists()


def test_an_unknown_ip_family_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    code, _, errors = call("sandbox", "up", "--ip-family", "6", "--dir", str(tmp_path / "sandbox"))
    assert code == 2
    assert all(f"'{family}'" in errors for family in ("ipv4", "ipv6", "dual"))
