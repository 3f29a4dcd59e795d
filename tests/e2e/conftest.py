"""What the promises share beside their fleets."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.faults.agents import agent_with
from tests.e2e.fleet import Fleet


@pytest.fixture(scope="session")
def processes_only(request: pytest.FixtureRequest) -> None:
    """Skip where agents are pods."""
    if request.config.getoption("--installed-by") == "chart":
        pytest.skip("needs agents that are processes of the sandbox")


@pytest.fixture(scope="session")
def pods_only(request: pytest.FixtureRequest) -> None:
    """Skip where agents are processes."""
    if request.config.getoption("--installed-by") == "sandbox":
        pytest.skip("needs agents that are pods of the chart: --installed-by=chart")


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace of the test's own with the targets us and eu."""
    async with fleet.namespace() as name:
        yield name


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def no_duplicates(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """No test may ever see two delegates of one pod."""
    yield
    if "fleet" in request.fixturenames:
        fleet: Fleet = request.getfixturevalue("fleet")
        assert fleet.census.take_duplicates() == []


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def soon(fleet: Fleet, processes_only: None) -> AsyncIterator[None]:
    """What was missing in a target is looked for every 2 s."""
    async with agent_with(fleet, "cd", ("--discovery-interval=2s",)):
        yield
