"""The hub's leader is killed between any two of its writes; the next leader completes what it began."""

import asyncio
import functools
from collections.abc import Awaitable
from typing import Any

import pytest

from agent.api.kinds import CLUSTER_ROLES, LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS, ROLE_BINDINGS
from agent.clusters.deps import Deps
from tests.controllers.hub.conftest import ACCEPTED, Hub
from tests.controllers.hub.test_registration import role, work
from tests.registrationagent import RegistrationAgent
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.full("Repeats two promises once for each write.")]

LONGEST = 20
"""Number of writes that no acceptance or deletion needs."""


class Killed:
    """A leader that sends no further write after a number of them, as if its process had ended."""

    def __init__(self, deps: Deps, writes: int) -> None:
        self.left = writes
        self.dead = False
        session = deps.local.client.session
        self._request = session.request
        session.request = self._counted  # type: ignore[method-assign]

    async def _counted(self, method: str, path: str, **more: Any) -> bytes:
        if method != "GET" and "/events" not in path and "accessreviews" not in path:
            if not self.left:
                self.dead = True
                await asyncio.Event().wait()
            self.left -= 1
        return await self._request(method, path, **more)


async def test_an_acceptance_survives_a_kill_after_any_write(hub: Hub) -> None:
    for writes in range(LONGEST):
        if not await is_killed_while_it_accepts(hub, hub.name(), writes):
            return
    raise AssertionError(f"an acceptance took {LONGEST} writes")


async def test_a_deletion_survives_a_kill_after_any_write(hub: Hub) -> None:
    for writes in range(LONGEST):
        if not await is_killed_while_it_deletes(hub, hub.name(), writes):
            return
    raise AssertionError(f"a deletion took {LONGEST} writes")


async def is_killed_while_it_accepts(hub: Hub, cluster: str, writes: int) -> bool:
    """Return whether the first leader ended before it had completed an acceptance; the second one completes it."""
    agent = RegistrationAgent(cluster, hub.entry, {"token": await hub.token(cluster, accepts=cluster)})
    async with hub.at_work() as deps:
        leader = Killed(deps, writes)
        await agent.register()
        request = await agent.request()
        await until(lambda: _ends(leader, _is_complete(hub, cluster)), what=f"the end after {writes} writes")
    async with hub.at_work():
        await agent.signed(request)
        await hub.condition(cluster, ACCEPTED, "True")
        await until(lambda: _is_complete(hub, cluster), what="an acceptance that is complete")
        async with agent.client() as client:
            await client.list(MANIFEST_WORKS, cluster)
    return leader.dead


async def is_killed_while_it_deletes(hub: Hub, cluster: str, writes: int) -> bool:
    """Return whether the first leader ended before it had completed a deletion; the second one completes it."""
    async with hub.at_work():
        await hub.joined(cluster)
    await hub.client.create(MANIFEST_WORKS, work("w", cluster))
    async with hub.at_work() as deps:
        leader = Killed(deps, writes)
        await hub.client.delete(MANAGED_CLUSTERS, cluster)
        await until(lambda: _ends(leader, _is_gone(hub, cluster)), what=f"the end after {writes} writes")
    async with hub.at_work():
        await gone(functools.partial(hub.get, cluster))
        await gone(functools.partial(hub.client.get, CLUSTER_ROLES, role(cluster)))
        await gone(functools.partial(hub.client.get, ROLE_BINDINGS, role(cluster, "work"), cluster))
        await gone(functools.partial(hub.client.get, MANIFEST_WORKS, "w", cluster))
    return leader.dead


async def _ends(leader: Killed, complete: Awaitable[bool]) -> bool:
    """Return whether a leader is dead, or has completed its work."""
    found = await complete
    return found or leader.dead


async def _is_complete(hub: Hub, cluster: str) -> bool:
    """Return whether an acceptance needs no further write."""
    found = await hub.get(cluster)
    types = {each["type"] for each in (found.get("status") or {}).get("conditions") or ()}
    leases = await hub.client.list(LEASES, cluster)
    known = {ACCEPTED, "ManagedClusterConditionClockSynced"} <= types
    return known and bool(found["spec"].get("taints")) and bool(leases)


async def _is_gone(hub: Hub, cluster: str) -> bool:
    return cluster not in {each["metadata"]["name"] for each in await hub.client.list(MANAGED_CLUSTERS)}
