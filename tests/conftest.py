"""Fixtures for all tests: real clusters, started when the first test requests one."""

import asyncio
import contextlib
import gc
import os
import secrets
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from agent.api.kinds import NAMESPACES, SERVICE_ACCOUNTS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.errors import NoNamespacesError
from hack.lab.sandbox.objects import connect
from tests.controllers.target_links import tear_away
from tests.examples import EXAMPLES
from tests.namespaces import clear, end
from tests.ocm import install, uninstall
from tests.waiting import until

pytest_plugins = [
    "tests.bytecode",
    "tests.e2e.fleets",
    "tests.e2e.verdict",
    "tests.workers",
    "tests.costs",
    "tests.second_look",
    "tests.tiers",
    "tests.progress",
]

_AS_SLOW_AS_THE_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("some", _AS_SLOW_AS_THE_MACHINE, derandomize=True, max_examples=EXAMPLES // 5)
settings.register_profile("all", _AS_SLOW_AS_THE_MACHINE, derandomize=True, max_examples=EXAMPLES)
settings.register_profile("search", _AS_SLOW_AS_THE_MACHINE, max_examples=EXAMPLES, print_blob=True)

_IN_THIS_PROCESS = ("clusters", "controllers", "kube", "kubelet", "runtime", "scheduler")
"""Folders whose tests write to a namespace only from their own process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that selects how the agents of tests/e2e are deployed."""
    parser.addoption(
        "--installed-by",
        choices=("sandbox", "chart"),
        default="sandbox",
        help="tests/e2e: agents and webhooks are processes of the sandbox, or pods of the chart (root)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Use fixed Hypothesis examples, unless HYPOTHESIS_PROFILE=search.

    No event loop exists yet; otherwise looptime makes asyncio create one that is never closed.
    """
    usual = "all" if config.getoption("--all") else "some"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", usual))
    _spare_the_cores()
    asyncio.set_event_loop(None)


def _spare_the_cores() -> None:
    """Configure all processes that tests start to use less CPU."""
    # Go programs collect garbage less often: saves a tenth of the CPU time of all tests, for memory that is
    # available.
    os.environ.setdefault("GOGC", "400")
    # Each runs on a single core: a fifth of a control plane's CPU time is spent on passing work between cores,
    # while all cores are busy anyway. Benchmarks do not use this.
    os.environ.setdefault("GOMAXPROCS", "1")
    # A process that wakes up waits for its turn instead of preempting the running one, sched(7): dozens of
    # processes on two cores would otherwise cost a third more.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during collection: all objects stay, and collecting takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _skip_without_namespaces() -> Generator[None, object, object]:
    """Skip a test that needs network namespaces if this user may not create any."""
    try:
        return (yield)
    except NoNamespacesError as error:
        if os.geteuid() == 0:
            raise
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Skip tests whose fixtures need network namespaces."""
    return (yield from _skip_without_namespaces())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip tests that need network namespaces."""
    return (yield from _skip_without_namespaces())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Real cluster with one fake node and Flotilla's CRDs, without agent and webhook."""
    directory = tmp_path_factory.mktemp("sandbox") / "one"
    async with Sandbox(directory, ["test"], "kwok:1", agents=False) as sandbox:
        yield sandbox


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    """Shared cluster; tests are isolated by their own namespaces."""
    return sandbox["test"]


@pytest_asyncio.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """Client of the shared cluster with all permissions."""
    client = connect(cluster.kubeconfig, name=cluster.name)
    async with client.session:
        yield client


@pytest_asyncio.fixture
async def namespace(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Namespace for one test in the shared cluster, ready for pods, emptied or deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await until(lambda: _has_service_account(client, name))
    yield name
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    await (clear if folder in _IN_THIS_PROCESS else end)(client, name)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def placement_kinds(sandbox: Sandbox) -> AsyncIterator[None]:
    """Serve the kinds of Placements in the shared cluster while the tests of a file run."""
    cluster = sandbox["test"]
    client = connect(cluster.kubeconfig, name=cluster.name)
    async with client.session:
        await install(client)
        yield
        await uninstall(client)


@pytest_asyncio.fixture
async def alone(cluster: Cluster) -> None:
    """Wait until the shared cluster has no objects of earlier tests, for tests that read the whole cluster."""
    client = connect(cluster.kubeconfig, name=cluster.name)
    ending: list[str] = []

    async def nothing_ends() -> bool:
        found = [each for each in await client.list(NAMESPACES) if "deletionTimestamp" in each["metadata"]]
        ending[:] = [f"{each['metadata']['name']}: {each['status'].get('conditions')}" for each in found]
        for each in found:
            # No kubelet ends pods, and no controller removes finalizers that tests have added.
            await tear_away(client, each["metadata"]["name"])
        return not ending

    async with client.session:
        try:
            await until(nothing_ends, 60.0, what="namespaces of earlier tests are gone")
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *ending])) from None


async def _has_service_account(client: Client, namespace: str) -> bool:
    try:
        await client.get(SERVICE_ACCOUNTS, "default", namespace)
    except NotFound:
        return False
    return True
