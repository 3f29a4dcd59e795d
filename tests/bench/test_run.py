"""A run on a real cluster, whose figures are not checked."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import PODS
from agent.cli.progress import Silent
from agent.kube.client import Client
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import BENCH, Lab, phase
from hack.lab.benchmarks.manifests import DEPLOYMENTS
from hack.lab.benchmarks.run import Load, run
from hack.lab.sandbox import Sandbox

pytestmark = pytest.mark.cluster


@pytest_asyncio.fixture
async def lab(sandbox: Sandbox) -> AsyncIterator[Lab]:
    lab = Lab(sandbox, Silent())
    yield lab
    await lab.close()


async def test_a_plain_run_sees_every_pod_run_and_leaves_nothing(lab: Lab, client: Client, namespace: str) -> None:
    found = await run(lab, Load("burst", namespace, 5, elected=False), settle=0.0)
    assert found.places == {"test": 5}
    assert 0 < found.start.p50 <= found.start.longest <= found.running
    assert found.gone > 0
    assert found.creation.cpu.keys() >= {"test/etcd", "test/kube-apiserver", BENCH}
    assert await client.list(DEPLOYMENTS, namespace) == []
    assert await client.list(PODS, namespace) == []


async def test_pods_that_run_without_having_been_elected_are_no_result(
    lab: Lab, client: Client, namespace: str
) -> None:
    with pytest.raises(BenchError, match="2 pods were not elected"):
        await run(lab, Load("burst", namespace, 2, elected=True), settle=0.0)


async def test_a_process_that_was_started_again_spoils_the_phase(lab: Lab) -> None:
    before = await lab.sample()
    after = await lab.sample()
    before.pids["test/kwok"] += 1
    with pytest.raises(BenchError, match="started again during the benchmark: test/kwok"):
        phase(before, after)
