"""Fleets of the end-to-end tests: their specifications, the fleet of each test file, and the running fleet."""

import asyncio
import contextlib
import inspect
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from agent.cli.progress import Silent
from hack.lab.sandbox import Sandbox, SandboxError, network, older
from hack.lab.sandbox.plan import OLDEST
from tests.e2e.fleet import Fleet
from tests.e2e.installed import Installed
from tests.e2e.rights import LEDGER, refused
from tests.sandbox.realnode.conftest import why_not

NewSandbox = Callable[..., Sandbox]

AGENT_FLAGS = (
    "--lease-duration=5",
    "--lease-renew=4",
    "--lease-retry=1",
    "--probe-interval=1",
    "--probe-timeout=1",
    # API servers may answer slowly on a busy machine. Pods must not move to another target because of that.
    "--slow-target=5",
    "--release-after=3",
    "--dwell=2",
    "--endpoints-grace=5",
    "--share-linger=3",
    "--agent-interval=2",
    "--take-up=45",
    # Copies may also be slow, and pods must wait for them.
    "--follow-wait=15",
    # A target that is late several times counts as flapping, and would receive no new pods for minutes.
    "--stable-after=100ms",
)
_USUAL = (
    "--source-api=192.0.2.1:6443",
    "--moves",
    "--withdraw=2s",
    "--service-links",
    "--ac3-networks",
    "--gateway",
    "--stable-after=2s",
    "--fail-back-after=5s",
    "--fence-after=4s",
    "--fence-margin=8s",
)
_APPLICATIONS = ("--p2code", "--service-links")
_KINDS_OF_APPLICATIONS = ("agent.placement.crds=true", "agent.p2code.enabled=true")
RESERVING_NODES, RESERVING_CPU = 3, 4
MISSING_SECONDS = 3
USUAL = "usual"
_SECONDS, _ON_CHARTS_SECONDS = 240, 480


async def _always() -> str:
    return ""


async def _real_nodes() -> str:
    return why_not()


async def _namespaces() -> str:
    return "" if await network.namespaces_work("tests") else "both IP families take network namespaces"


async def _oldest() -> str:
    try:
        # Compiling would exceed a test's timeout.
        await older.find(OLDEST, Silent(), compile=False)
    except SandboxError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Spec:
    """Arguments of a fleet's sandbox, and a check that returns why this machine cannot run it; empty if it can."""

    clusters: tuple[str, ...]
    nodes: str = "kwok:5"
    flags: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    """Chart values, if the chart installs the agents."""
    missing: Callable[[], Awaitable[str]] = _always


SPECS = {
    # Source cd, targets us and eu. Short timeouts make agents react within seconds instead of minutes. Delegates
    # get tokens of the source, but no container runs that could call its address.
    USUAL: Spec(("cd", "us", "eu"), flags=_USUAL),
    # Like the usual fleet in mode `reserve`: small clusters with a candidate scheduler each, short holds and group
    # timeouts.
    "reserving": Spec(
        ("cd", "us", "eu"),
        f"kwok:{RESERVING_NODES}",
        ("--scheduling=reserve", "--hold=10", "--group-timeout=8", "--dwell=3", "--moves"),
        {"node_cpu": str(RESERVING_CPU), "candidate_scheduler": True},
    ),
    # Sources a and b and their target t, all with the cluster name `same`.
    "same name": Spec(
        ("a", "b", "t"),
        "kwok:2",
        ("--cluster-name=same", "--agent-interval=1", "--hold=5"),
        {"candidate_scheduler": True},
    ),
    # Source cd, which discovers Placements within seconds and runs whole applications. The agents of targets us and
    # eu recreate a lost delegate after seconds instead of a minute.
    "placing": Spec(
        ("cd", "us", "eu"),
        "kwok:2",
        (
            "--discovery-interval=2",
            "--moves",
            "--withdraw=2s",
            "--p2code",
            f"--pod-missing={MISSING_SECONDS}",
            "--agent-interval=1",
        ),
        values=_KINDS_OF_APPLICATIONS,
    ),
    # One real node per cluster. Withdrawal has to wait long enough for requests on a busy machine, which take
    # seconds.
    "real": Spec(
        ("cd", "us", "eu"),
        "real:1",
        (f"--pod-missing={MISSING_SECONDS}", "--withdraw=15", "--discovery-interval=2", "--moves", *_APPLICATIONS),
        values=_KINDS_OF_APPLICATIONS,
        missing=_real_nodes,
    ),
    # Source cd and target us with IPv6 addresses only, and with addresses of both families.
    "ipv6": Spec(("cd", "us"), "kwok:2", ("--gateway",), {"ip_family": "ipv6"}, missing=_namespaces),
    "dual": Spec(("cd", "us"), "kwok:2", ("--gateway",), {"ip_family": "dual"}, missing=_namespaces),
    # Clusters of the oldest supported Kubernetes and of the newest, each with a candidate scheduler of its version.
    "versions": Spec(
        ("old", "new"),
        "kwok:2",
        more={"candidate_scheduler": True, "kubernetes": [f"old={OLDEST}"]},
        missing=_oldest,
    ),
}
FLEET_OF = {
    "tests/e2e/faults/test_black_holes_reserving.py": "reserving",
    "tests/e2e/faults/test_restored.py": "placing",
    "tests/e2e/test_09_shared_target.py": "same name",
    "tests/e2e/test_17_lifecycle_rows.py": "placing",
    "tests/e2e/test_18_reserve.py": "reserving",
    "tests/e2e/test_19_groups.py": "reserving",
    "tests/e2e/test_29_hardened_pods.py": "real",
    "tests/e2e/test_30_kubelet.py": "real",
    "tests/e2e/test_31_traffic.py": "real",
    "tests/e2e/test_33_last_words.py": "real",
    "tests/e2e/test_34_operator.py": "real",
    "tests/e2e/test_35_endings.py": "real",
    "tests/e2e/test_36_service_commands.py": "real",
    "tests/e2e/test_38_downward_files.py": "real",
    "tests/e2e/test_40_versions.py": "versions",
    "tests/e2e/test_42_upgrades.py": "real",
    "tests/e2e/test_57_revoked_accounts.py": "real",
    "tests/e2e/test_61_placement.py": "placing",
    "tests/e2e/test_62_moves.py": "real",
    "tests/e2e/test_69_groups_that_move.py": "reserving",
    "tests/e2e/test_70_applications.py": "placing",
    "tests/e2e/test_71_applications_run.py": "real",
    "tests/e2e/test_72_ip_families.py": "ipv6",
    "tests/e2e/test_99_rights.py": "",
    "tests/peers/test_migration.py": "same name",
    "tests/peers/test_source_peer.py": "same name",
    "tests/peers/test_takeover.py": "same name",
    "tests/peers/test_target_peer.py": "same name",
}
"""The fleet of each file in `FOLDERS`; empty if it needs none. Files not listed use the usual fleet."""
FOLDERS = ("tests/e2e", "tests/e2e/faults", "tests/peers")
_NEXT = pytest.StashKey[str]()
"""Session stash: the fleet of the next test, empty if it needs none."""


def fleet_of(nodeid: str) -> str:
    """Return the fleet that a test needs, empty if none. Pure."""
    file = nodeid.partition("::")[0]
    return FLEET_OF.get(file, USUAL) if file.rpartition("/")[0] in FOLDERS else ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort tests by fleet, so that each fleet starts once, and run all of them on the session's event loop."""
    seconds = _SECONDS if config.getoption("--installed-by") == "sandbox" else _ON_CHARTS_SECONDS
    on_fleets = [each for each in items if fleet_of(each.nodeid)]
    for item in on_fleets:
        item.add_marker(pytest.mark.e2e)
        item.add_marker(pytest.mark.timeout(seconds))
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    order = list(SPECS)
    on_fleets.sort(key=lambda each: order.index(fleet_of(each.nodeid)))
    items[:] = on_fleets + [each for each in items if not fleet_of(each.nodeid)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Record the fleet of the next test."""
    item.session.stash[_NEXT] = fleet_of(nextitem.nodeid) if nextitem else ""
    return (yield)


class FleetKeeper:
    """Keeps one fleet running until a test needs another."""

    def __init__(self, new_sandbox: NewSandbox) -> None:
        self._new_sandbox = new_sandbox
        self._name = ""
        self._stack = contextlib.AsyncExitStack()
        self._fleet: Fleet | None = None

    async def fleet(self, name: str) -> Fleet:
        """Return a fleet by name; start it if another one runs. Skips the test if this machine cannot run it."""
        if self._fleet is None or self._name != name:
            await self.end()
            spec = SPECS[name]
            if reason := await spec.missing():
                pytest.skip(reason)
            flags = (*AGENT_FLAGS, *spec.flags)
            sandbox = self._new_sandbox(spec.clusters, spec.nodes, spec.values, agent_flags=flags, **spec.more)
            self._fleet, self._name = await self._stack.enter_async_context(_up(sandbox)), name
        return self._fleet

    async def end(self) -> None:
        """Stop the running fleet. Raises AssertionError if its tests left objects or if a right was missing."""
        self._fleet = None
        stack, self._stack = self._stack, contextlib.AsyncExitStack()
        await stack.aclose()


@contextlib.asynccontextmanager
async def _up(sandbox: Sandbox) -> AsyncIterator[Fleet]:
    """Run a fleet in a sandbox, with its census."""
    async with sandbox:
        fleet = Fleet(sandbox)
        counting = asyncio.ensure_future(fleet.census.run())
        try:
            yield fleet
            await fleet.nothing_left()
            assert refused(sandbox.directory) == []
        finally:
            LEDGER.read(sandbox.directory)
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
            await fleet.close()


@pytest.fixture(scope="session")
def new_sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewSandbox]:
    """Return a function that creates sandboxes; `--installed-by` selects processes or the chart. Takes the
    arguments of `Sandbox` except the folder."""
    if request.config.getoption("--installed-by") == "sandbox":

        def with_processes(
            clusters: Sequence[str], nodes: str = "kwok:5", values: Sequence[str] = (), **more: Any
        ) -> Sandbox:
            return Sandbox(tmp_path_factory.mktemp("fleet") / "one", clusters, nodes, audit=True, **more)

        yield with_processes
        return
    if reason := why_not():
        pytest.skip(reason)
    images = tmp_path_factory.mktemp("images")

    def with_chart(clusters: Sequence[str], nodes: str = "kwok:5", values: Sequence[str] = (), **more: Any) -> Sandbox:
        directory = tmp_path_factory.mktemp("fleet") / "one"
        return Installed(directory, clusters, nodes, images=images, chart_values=values, audit=True, **more)

    yield with_chart
    # pytest keeps temporary folders of earlier runs, and these are large.
    shutil.rmtree(images)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def keeper(new_sandbox: NewSandbox) -> AsyncIterator[FleetKeeper]:
    """The fleet keeper of this process."""
    keeper = FleetKeeper(new_sandbox)
    yield keeper
    await keeper.end()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fleet(request: pytest.FixtureRequest, keeper: FleetKeeper) -> AsyncIterator[Fleet]:
    """The fleet that this file needs. It is stopped if the next test needs another one."""
    name = fleet_of(request.node.nodeid)
    yield await keeper.fleet(name)
    if request.session.stash.get(_NEXT, "") != name:
        await keeper.end()
