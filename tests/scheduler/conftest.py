"""Two targets that reserve nodes, for rooms of the source in mode `reserve`."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.sandbox import Sandbox


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def reserving_targets(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters us and eu with two nodes of 4 CPUs, agents and candidate schedulers; holds last 8 s."""
    flags = ("--hold=8", "--pod-missing=1", "--lease-duration=3", "--lease-renew=2", "--lease-retry=0.5")
    async with Sandbox(
        tmp_path_factory.mktemp("reserving") / "two",
        ["us", "eu"],
        "kwok:2",
        node_cpu="4",
        agent_flags=flags,
        candidate_scheduler=True,
    ) as sandbox:
        yield sandbox
