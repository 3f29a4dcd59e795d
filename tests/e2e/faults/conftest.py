"""What tests of several files here share."""

from collections.abc import AsyncIterator, Mapping

import pytest_asyncio

from tests.e2e.faults.holes import Hole, both
from tests.e2e.fleet import Fleet


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def holes(fleet: Fleet) -> AsyncIterator[Mapping[str, Hole]]:
    """On the ways of the source's agent to its own API server and to that of us."""
    async with both(fleet) as found:
        yield found
