"""What tests of every room share: real clusters, started when the first test asks for one."""

import asyncio
import inspect
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import settings

from agent.api.kinds import NAMESPACES, SERVICE_ACCOUNTS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.sandbox import Cluster, Sandbox
from agent.sandbox.objects import connect
from tests.waiting import until

pytest_plugins = ["tests.workers"]

settings.register_profile("same", derandomize=True)
settings.register_profile("search", print_blob=True)

_HERE = Path(__file__).parent
_ON_FLEETS = (_HERE / "e2e", _HERE / "peers")
_ON_FLEETS_SECONDS, _ON_CHARTS_SECONDS = 240, 480


def pytest_addoption(parser: pytest.Parser) -> None:
    """How the agents of tests/e2e come into their clusters."""
    parser.addoption(
        "--installed-by",
        choices=("sandbox", "chart"),
        default="sandbox",
        help="tests/e2e: agents and webhooks are processes of the sandbox, or pods of the chart (root)",
    )


def pytest_configure() -> None:
    """Every run tries the same examples, but with HYPOTHESIS_PROFILE=search, which tries others each time.

    There is no event loop yet: else looptime has asyncio make one that nobody closes.
    """
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
    asyncio.set_event_loop(None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests on a fleet share one event loop, because they share its clients and a watch over everything."""
    seconds = _ON_FLEETS_SECONDS if config.getoption("--installed-by") == "sandbox" else _ON_CHARTS_SECONDS
    for item in items:
        if item.path.parent not in _ON_FLEETS:
            continue
        item.add_marker(pytest.mark.e2e)
        item.add_marker(pytest.mark.timeout(seconds))
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """One real cluster with one fake node and our CRDs, without agent and webhook."""
    directory = tmp_path_factory.mktemp("sandbox") / "one"
    async with Sandbox(directory, ["test"], "kwok:1", agents=False) as sandbox:
        yield sandbox


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    """The shared cluster; tests keep apart by working in namespaces of their own."""
    return sandbox["test"]


@pytest_asyncio.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of the shared cluster with all rights."""
    client = connect(cluster.kubeconfig, name=cluster.name)
    async with client.session:
        yield client


@pytest_asyncio.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace of the test's own in the shared cluster, ready for pods, deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await until(lambda: _has_service_account(client, name))
    yield name
    await client.delete(NAMESPACES, name)


async def _has_service_account(client: Client, namespace: str) -> bool:
    try:
        await client.get(SERVICE_ACCOUNTS, "default", namespace)
    except NotFound:
        return False
    return True
