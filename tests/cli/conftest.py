"""Fixtures of the command's tests: two clusters with agents, and the order of the files that use them."""

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
    # On a busy machine requests are slow, and `doctor` would report a slow target.
    "--slow-target=5",
    "--dwell=2",
    "--follow-linger=1",
    # Moves have files of their own in tests/e2e; here a drain evicts pods, and commands say that nothing moves.
    "--no-moves",
    "--log-level=DEBUG",
    "--log-json",
)
_HERE = Path(__file__).parent
_ON_TWO_CLUSTERS = ("test_operator.py", "test_join.py")
"""Files in their order; the last test of the last file deletes a CRD."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the files that use the two clusters to the end, so that the clusters run no longer than needed."""
    ours = [number for number, item in enumerate(items) if item.path.parent == _HERE]
    ordered = sorted((items[number] for number in ours), key=lambda item: _place(item.path.name))
    for number, item in zip(ours, ordered, strict=True):
        items[number] = item


def _place(file: str) -> int:
    return _ON_TWO_CLUSTERS.index(file) if file in _ON_TWO_CLUSTERS else -1


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters `cd` and `us`, not joined. Each file uses its own namespace."""
    directory = tmp_path_factory.mktemp("two") / "two"
    async with Sandbox(directory, ("cd", "us"), "kwok:2", agent_flags=AGENT_FLAGS) as sandbox:
        yield sandbox
