"""A real node whose processes die, all at once or one at a time, and the end of a cluster whose record is lost."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.plan import identity
from hack.lab.sandbox.realnode import cgroups
from tests.sandbox.machine import leftovers
from tests.sandbox.realnode.conftest import CLIENT, apply, field, ready, run
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.realnodes, pytest.mark.timeout(120)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(able: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Cluster `a` with a running container."""
    async with Sandbox(tmp_path_factory.mktemp("real") / "one", ["a"], "real:1", agents=False) as sandbox:
        await apply(sandbox["a"], CLIENT)
        await ready(sandbox["a"], "client")
        yield sandbox


async def restarted(cluster: Cluster) -> bool:
    return int(await field(cluster, ".status.containerStatuses[0].restartCount", "pod", "client")) > 0


async def test_a_node_whose_plug_was_pulled_boots_again_and_nothing_outlives_its_end(real: Sandbox) -> None:
    a = real["a"]
    await real.kill("a", "containerd")
    await real.kill("a", "kubelet")
    assert await real.up() == ["a/containerd", "a/kubelet"]
    assert not await restarted(a)

    await real.kill("a", "node")
    assert await real.up() == ["a/node"]
    await until(lambda: restarted(a), 60)
    await ready(a, "client")
    assert await run(a, "client", "echo back") == "back\n"

    assert {line.state for line in real.status()} == {"running"}
    assert len(cgroups.members(f"flotilla-{identity(real.directory)}-a")) >= 3
    # Simulates a crash: the record and the container monitors no longer exist.
    (real.directory / "sandbox.json").unlink()
    await real.kill("a", "containerd")
    assert await Sandbox(real.directory).down()
    assert leftovers(real.directory) == []
