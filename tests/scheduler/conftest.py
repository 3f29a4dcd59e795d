"""Two targets that reserve nodes, for controllers of a source in mode `reserve`."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.kube.client import Client
from hack.lab.sandbox import Cluster, Sandbox
from tests.scheduler.reserving import Open, Stage, stage


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def reserving_targets(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters us and eu with two nodes of 4 CPUs, agents and candidate schedulers; holds last 8 s."""
    flags = ("--hold=8", "--pod-missing=1", "--discovery-interval=2s")
    async with Sandbox(
        tmp_path_factory.mktemp("reserving") / "two",
        ["us", "eu"],
        "kwok:2",
        node_cpu="4",
        agent_flags=flags,
        candidate_scheduler=True,
    ) as sandbox:
        yield sandbox


@pytest.fixture
def opened(cluster: Cluster, client: Client, namespace: str, reserving_targets: Sandbox, tmp_path: Path) -> Open:
    """Factory for the stage of a test; takes settings."""

    @contextlib.asynccontextmanager
    async def open_(**settings: object) -> AsyncIterator[Stage]:
        async with stage(cluster, client, namespace, reserving_targets, tmp_path, **settings) as found:
            yield found

    return open_
