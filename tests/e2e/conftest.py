"""Fixtures of the end-to-end tests, in addition to the fleets."""

import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import SERVICES
from agent.cli.progress import Silent
from hack.lab.sandbox import SandboxError, binaries
from tests.e2e import shared
from tests.e2e.faults.agents import agent_with
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.shared import CLUSTERS
from tests.e2e.traefik import ingress, traefik
from tests.e2e.traffic import traffic
from tests.e2e.webpods import HEADLESS, REPLICAS, TARGETS, headless, in_clusters, say, web


@pytest.fixture(scope="session")
def processes_only(request: pytest.FixtureRequest) -> None:
    """Skip if agents run as pods."""
    if request.config.getoption("--installed-by") == "chart":
        pytest.skip("needs agents that are processes of the sandbox")


@pytest.fixture(scope="session")
def pods_only(request: pytest.FixtureRequest) -> None:
    """Skip if agents run as processes."""
    if request.config.getoption("--installed-by") == "sandbox":
        pytest.skip("needs agents that are pods of the chart: --installed-by=chart")


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace for this test with the targets us and eu."""
    async with fleet.namespace() as name:
        yield name


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def no_duplicates(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Fail a test during which a proxy pod had two delegates."""
    yield
    if "fleet" in request.fixturenames:
        fleet: Fleet = request.getfixturevalue("fleet")
        assert fleet.census.take_duplicates() == []


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def soon(fleet: Fleet, processes_only: None) -> AsyncIterator[None]:
    """Let the source's agent repeat discovery of its targets' APIs every 2 s."""
    async with agent_with(fleet, "cd", ("--discovery-interval=2s",)):
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace with six pods on real nodes in eu, and a Service and a headless Service that exist in every
    cluster."""
    async with fleet.namespace() as namespace:
        await say(fleet, namespace, {TARGETS: "eu"})
        for service in (shared.service("web"), headless()):
            await fleet.source.create(SERVICES, service, namespace)
        await fleet.source.create(DEPLOYMENTS, web(), namespace)
        pods = await in_clusters(fleet, namespace, {"eu"})
        await shared.known_everywhere(fleet, namespace, HEADLESS, REPLICAS)
        await shared.marked(fleet, namespace, "web")
        # A kube-proxy that has just observed a Service refuses its first requests, in any cluster.
        async with traffic(fleet, namespace, "web", headless=HEADLESS) as asked:
            await asked.met(pods)
        yield namespace


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ingresses(fleet: Fleet, place: str) -> AsyncIterator[dict[str, str]]:
    """Addresses of an ingress controller in each cluster; empty if Traefik is not built."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            program = await binaries.traefik(Silent(), compile=False)
        except SandboxError as error:
            print(f"no requests go through an ingress controller: {error}")
            yield {}
            return
        await ingress(fleet, place, "web")
        yield await stack.enter_async_context(traefik(fleet, CLUSTERS, place, program))
