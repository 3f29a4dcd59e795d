"""Three clusters with agents; a test stops the agent whose place a double takes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest_asyncio

from agent.api.kinds import LEASES
from agent.api.names import LEASE_CONTROLLERS
from tests.e2e.fleet import Fleet


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def no_candidate_schedulers(fleet: Fleet) -> None:
    """They run while a test wants them."""
    await asyncio.gather(*(fleet.sandbox.stop(name, "candidate-scheduler") for name in fleet.names))


@contextlib.asynccontextmanager
async def candidate_schedulers(fleet: Fleet, *clusters: str) -> AsyncIterator[None]:
    """A candidate scheduler in some clusters, which their agents serve."""
    await asyncio.gather(*(fleet.sandbox.start(name, "candidate-scheduler") for name in clusters))
    try:
        yield
    finally:
        await asyncio.gather(*(fleet.sandbox.stop(name, "candidate-scheduler") for name in clusters))


@contextlib.asynccontextmanager
async def without_agent(fleet: Fleet, *clusters: str) -> AsyncIterator[None]:
    """No agent of ours in some clusters, and nothing that says that there ever was one."""
    for name in clusters:
        await fleet.sandbox.stop(name, "agent")
        await fleet.clients[name].delete(LEASES, LEASE_CONTROLLERS, "kube-system")
    try:
        yield
    finally:
        await asyncio.gather(*(fleet.sandbox.start(name, "agent") for name in clusters))


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def no_duplicates(fleet: Fleet) -> AsyncIterator[None]:
    """No test may ever see two delegates of one pod, unless it clears them away itself."""
    yield
    assert fleet.census.take_duplicates() == []
