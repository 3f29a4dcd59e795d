"""What the ten promises share: one fleet of three clusters with agents and webhooks, and a census of all delegates."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.sandbox import Sandbox
from tests.e2e.fleet import Fleet
from tests.e2e.installed import Installed
from tests.e2e.rights import LEDGER, refused
from tests.sandbox.realnode.conftest import why_not

NewSandbox = Callable[..., Sandbox]

AGENT_FLAGS = (
    "--lease-duration=5",
    "--lease-renew=4",
    "--lease-retry=0.5",
    "--probe-interval=1",
    "--probe-timeout=1",
    "--release-after=3",
    "--dwell=2",
    "--endpoints-grace=5",
    "--share-linger=3",
)
RESERVING_NODES, RESERVING_CPU = 3, 4
_HERE = Path(__file__).parent
CHOSEN = pytest.StashKey[set[str]]()
"""Of the configuration: ids of tests of this folder, before any are left out."""
OUTCOMES = pytest.StashKey[dict[str, str]]()
"""Of the session: what became of tests, by id."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remember which tests there are, for whoever needs all of them."""
    config.stash[CHOSEN] = {item.nodeid for item in items if item.path.parent == _HERE}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what became of each test."""
    report = yield
    outcomes = item.session.stash.setdefault(OUTCOMES, {})
    if outcomes.get(item.nodeid, "passed") == "passed":
        outcomes[item.nodeid] = report.outcome
    return report


@contextlib.asynccontextmanager
async def fleet_of(sandbox: Sandbox) -> AsyncIterator[Fleet]:
    """A fleet in a sandbox, with its census under way."""
    async with sandbox:
        LEDGER.fleets.add(sandbox.directory)
        fleet = Fleet(sandbox)
        counting = asyncio.ensure_future(fleet.census.run())
        try:
            yield fleet
            await fleet.all_gone()
            assert refused(sandbox.directory) == []
        finally:
            LEDGER.fleets.discard(sandbox.directory)
            LEDGER.read(sandbox.directory)
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
            await fleet.close()


@pytest.fixture(scope="session")
def new_sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewSandbox]:
    """Makes sandboxes whose agents come as `--installed-by` says: with arguments of `Sandbox`, but for the folder."""
    if request.config.getoption("--installed-by") == "sandbox":

        def with_processes(clusters: Sequence[str], nodes: str = "kwok:5", **more: Any) -> Sandbox:
            return Sandbox(tmp_path_factory.mktemp("fleet") / "one", clusters, nodes, audit=True, **more)

        yield with_processes
        return
    if reason := why_not():
        pytest.skip(reason)
    images = tmp_path_factory.mktemp("images")

    def with_chart(clusters: Sequence[str], nodes: str = "kwok:5", **more: Any) -> Sandbox:
        directory = tmp_path_factory.mktemp("fleet") / "one"
        return Installed(directory, clusters, nodes, images=images, audit=True, **more)

    yield with_chart
    # pytest keeps folders for a while, and these are large.
    shutil.rmtree(images)


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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fleet(new_sandbox: NewSandbox) -> AsyncIterator[Fleet]:
    """Source cd, targets us and eu; agents that notice within seconds what takes others minutes."""
    async with fleet_of(new_sandbox(("cd", "us", "eu"), agent_flags=AGENT_FLAGS)) as fleet:
        yield fleet


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reserving_fleet(new_sandbox: NewSandbox) -> AsyncIterator[Fleet]:
    """The same in mode `reserve`: small clusters with a candidate scheduler each, holds and groups that end soon."""
    sandbox = new_sandbox(
        ("cd", "us", "eu"),
        f"kwok:{RESERVING_NODES}",
        node_cpu=str(RESERVING_CPU),
        agent_flags=(*AGENT_FLAGS, "--scheduling=reserve", "--hold=10", "--group-timeout=8", "--dwell=3"),
        candidate_scheduler=True,
    )
    async with fleet_of(sandbox) as fleet:
        yield fleet


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
