"""What tests of every room share: real clusters, started when the first test asks for one."""

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import NAMESPACES
from agent.kube.client import Client
from agent.sandbox import Cluster, Sandbox
from agent.sandbox.objects import connect


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
    """A namespace of the test's own in the shared cluster, deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)
