"""What tests of the command share: two clusters with agents, and the order that lets them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hack.lab.sandbox import Sandbox

AGENT_FLAGS = (
    "--lease-duration=5",
    "--lease-renew=4",
    "--lease-retry=1",
    "--probe-interval=1",
    # On a busy machine answers may take a while, and `doctor` tells of that.
    "--slow-target=5",
    "--dwell=2",
    "--follow-linger=1",
    "--log-level=DEBUG",
    "--log-json",
)
_HERE = Path(__file__).parent
_ON_TWO_CLUSTERS = ("test_operator.py", "test_join.py")
"""In this order: the last test of the last one takes a CRD away."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files on the two clusters are the last ones of this folder, so that the clusters run no longer than needed."""
    ours = [number for number, item in enumerate(items) if item.path.parent == _HERE]
    ordered = sorted((items[number] for number in ours), key=lambda item: _place(item.path.name))
    for number, item in zip(ours, ordered, strict=True):
        items[number] = item


def _place(file: str) -> int:
    return _ON_TWO_CLUSTERS.index(file) if file in _ON_TWO_CLUSTERS else -1


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters cd and us, which are not joined; each file works in a namespace of its own."""
    directory = tmp_path_factory.mktemp("two") / "two"
    async with Sandbox(directory, ("cd", "us"), "kwok:2", agent_flags=AGENT_FLAGS) as sandbox:
        yield sandbox
