"""Real nodes that go: nothing of them stays on the machine, however they end."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.sandbox import Cluster, Sandbox, SandboxError, process
from agent.sandbox.plan import identity
from agent.sandbox.progress import Silent
from agent.sandbox.realnode import cgroups, host
from tests.sandbox.machine import leftovers
from tests.sandbox.realnode.conftest import apply, field, ready, run
from tests.sandbox.realnode.test_nodes import CLIENT
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.realnodes, pytest.mark.timeout(120), pytest.mark.usefixtures("able")]


@pytest_asyncio.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    directory = tmp_path / "sandbox"
    yield directory
    await Sandbox(directory).down()


async def restarted(cluster: Cluster) -> bool:
    return int(await field(cluster, ".status.containerStatuses[0].restartCount", "pod", "client")) > 0


async def test_a_node_whose_plug_was_pulled_boots_again_and_nothing_outlives_its_end(directory: Path) -> None:
    sandbox = Sandbox(directory, ["one"], "real:1", agents=False)
    await sandbox.up()
    cluster = sandbox["one"]
    await apply(cluster, CLIENT)
    await ready(cluster, "client")
    await sandbox.kill("one", "containerd")
    await sandbox.kill("one", "kubelet")
    assert await sandbox.up() == ["one/containerd", "one/kubelet"]
    assert not await restarted(cluster)

    await sandbox.kill("one", "node")
    assert await sandbox.up() == ["one/node"]
    await until(lambda: restarted(cluster), 60)
    await ready(cluster, "client")
    assert await run(cluster, "client", "echo back") == "back\n"

    assert {line.state for line in sandbox.status()} == {"running"}
    assert len(cgroups.members(f"flotilla-{identity(directory)}-one")) >= 3
    # As after a crash: no record, and what watches over the containers is gone.
    (directory / "sandbox.json").unlink()
    await sandbox.kill("one", "containerd")
    assert await Sandbox(directory).down()
    assert leftovers(directory) == []


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
