"""Source and target as separate clusters, started when the first test requests them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import connect
from tests.controllers.pair import Pair, pair_of


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def two_clusters(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters `here` and `there` with our CRDs, without agents."""
    directory = tmp_path_factory.mktemp("pair") / "two"
    async with Sandbox(directory, ["here", "there"], "kwok:1", agents=False) as sandbox:
        yield sandbox


@pytest_asyncio.fixture
async def pair(two_clusters: Sandbox) -> AsyncIterator[Pair]:
    """A source and a target with a namespace of the test's own."""
    here, there = (connect(two_clusters[name].kubeconfig, name=name) for name in ("here", "there"))
    async with here.session, there.session, pair_of(two_clusters, here, there) as pair:
        yield pair
