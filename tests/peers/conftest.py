"""Three clusters with agents; a test stops the agent that a double replaces."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from agent.api.kinds import LEASES, PODS, POLICY_BINDINGS
from agent.api.names import LEASE_CONTROLLERS, SCHEDULER_PROXY
from agent.api.ownroles import CONFIGURATION
from agent.kube.client import Client, encode
from agent.kube.errors import Forbidden, Invalid
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.waiting import until

Raw = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def no_candidate_schedulers(fleet: Fleet) -> None:
    """Stop the candidate schedulers until a test needs them."""
    await asyncio.gather(*(fleet.sandbox.stop(name, "candidate-scheduler") for name in fleet.names))


@contextlib.asynccontextmanager
async def candidate_schedulers(fleet: Fleet, *clusters: str) -> AsyncIterator[None]:
    """Run a candidate scheduler in some clusters, with the extender of their agents."""
    await asyncio.gather(*(fleet.sandbox.start(name, "candidate-scheduler") for name in clusters))
    try:
        yield
    finally:
        await asyncio.gather(*(fleet.sandbox.stop(name, "candidate-scheduler") for name in clusters))


@contextlib.asynccontextmanager
async def without_agent(fleet: Fleet, *clusters: str) -> AsyncIterator[None]:
    """Remove agent, policies and all traces of an agent from some clusters."""
    bindings: dict[str, list[Raw]] = {}
    for name in clusters:
        await fleet.sandbox.stop(name, "agent")
        await fleet.clients[name].delete(LEASES, LEASE_CONTROLLERS, "kube-system")
        bindings[name] = await without_policies(fleet.clients[name])
    try:
        yield
    finally:
        for name, taken in bindings.items():
            for binding in taken:
                await fleet.clients[name].create(POLICY_BINDINGS, binding)
        await asyncio.gather(*(fleet.sandbox.start(name, "agent") for name in clusters))


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def no_duplicates(fleet: Fleet) -> AsyncIterator[None]:
    """Check that no pod ever has two delegates, except for tests that remove duplicates."""
    yield
    assert fleet.census.take_duplicates() == []


async def without_policies(client: Client) -> list[Raw]:
    """Remove the policies, since other software creates proxy pods, too. Return a function that restores them."""
    bindings = [
        each for each in await client.list(POLICY_BINDINGS) if each["metadata"]["name"].startswith(CONFIGURATION)
    ]
    for binding in bindings:
        await client.delete(POLICY_BINDINGS, binding["metadata"]["name"])

    async def allows() -> bool:
        body = encode(manifests.pod("tried", schedulerName=SCHEDULER_PROXY))
        try:
            await client.session.request("POST", PODS.path("default"), params={"dryRun": "All"}, body=body)
        except (Forbidden, Invalid):
            return False
        return True

    await until(allows, what="the API server lets others make proxy pods")
    kept = ("name", "labels", "annotations")
    return [{**each, "metadata": {key: each["metadata"].get(key) for key in kept}} for each in bindings]
