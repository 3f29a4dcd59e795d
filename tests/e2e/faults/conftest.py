"""Fixtures for several fault tests."""

from collections.abc import AsyncIterator, Mapping

import pytest_asyncio

from tests.e2e.faults.holes import Hole, both
from tests.e2e.fleet import Fleet


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def holes(fleet: Fleet) -> AsyncIterator[Mapping[str, Hole]]:
    """Black holes between the source's agent and its own API server, and the API server of us."""
    async with both(fleet) as found:
        yield found
