"""Real nodes whose start is aborted: no part of them stays on the machine."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from agent.cli.progress import Silent
from hack.lab.sandbox import Sandbox, SandboxError, process
from hack.lab.sandbox.plan import identity
from hack.lab.sandbox.realnode import host
from tests.sandbox.machine import leftovers
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.realnodes, pytest.mark.timeout(120), pytest.mark.usefixtures("able")]


async def test_an_up_that_is_killed_half_way_leaves_nothing_after_down(directory: Path) -> None:
    arguments = ("sandbox", "up", f"--dir={directory}", "--clusters=one", "--nodes=real:1", "--no-agents")
    up = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agent.cli", *arguments, stderr=asyncio.subprocess.DEVNULL
    )

    async def kubelet_runs() -> bool:
        return process.find(directory / "one" / "kubelet.pid", f"{identity(directory)}/one/kubelet") is not None

    await until(kubelet_runs, 60)
    os.kill(up.pid, signal.SIGKILL)
    await up.wait()
    assert await Sandbox(directory).down()
    assert leftovers(directory) == []


async def test_a_node_that_does_not_start_is_named_and_nothing_is_left(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "containerd"
    broken.write_text("#!/bin/sh\necho no such luck\nexit 3\n")
    broken.chmod(0o755)
    found = await host.programs(Silent())
    monkeypatch.setattr(host, "installed", lambda: {**found, "containerd": str(broken)})
    with pytest.raises(SandboxError, match=r"cluster one: containerd ended(.*\n)*.*no such luck"):
        await Sandbox(directory, ["one"], "real:1", agents=False).up()
    assert leftovers(directory) == []


async def test_on_loopback_real_nodes_are_refused_and_nothing_is_left(directory: Path) -> None:
    with pytest.raises(SandboxError, match="real nodes need network namespaces"):
        await Sandbox(directory, ["one"], "real:1", agents=False, network="loopback").up()
    assert leftovers(directory) == []
