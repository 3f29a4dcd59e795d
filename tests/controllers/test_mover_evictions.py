"""Evictions as an API server sees them, with a disruption budget in between: what may not go is not withdrawn."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import PODS, Kind
from agent.api.names import moves
from agent.controllers.mover.view import Evict, Owner, Pod, Withdraw
from agent.controllers.mover.writer import Writer
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.sandbox import Cluster
from tests.controllers.proxies import create, elected
from tests.controllers.rooms import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
OWNER = Owner("StatefulSet", "db", "evict")


class Trial:
    """A proxy pod that runs, and what evicts it."""

    def __init__(self, client: Client, namespace: str, writer: Writer, uid: str) -> None:
        self._client, self._namespace, self._writer = client, namespace, writer
        self._pod = Pod("web", uid, cause="Retire", serves=True)

    async def budget(self, allowed: int) -> None:
        """A budget says how many may be disrupted."""
        wanted = {"spec": {"minAvailable": 1 - allowed, "selector": {"matchLabels": {"app": "web"}}}}
        with contextlib.suppress(NotFound):
            await self._client.delete(BUDGETS, "web", self._namespace)
        await self._client.create(BUDGETS, {"metadata": {"name": "web"}, **wanted}, self._namespace)

        async def counted() -> bool:
            status = (await self._client.get(BUDGETS, "web", self._namespace)).get("status") or {}
            return status.get("observedGeneration") == 1 and status.get("disruptionsAllowed") == allowed

        await until(counted)

    async def withdraw(self) -> str:
        return await self._writer.withdraw(self._namespace, Withdraw(self._pod), {"app"})

    async def evict(self) -> str:
        withdrawn = Pod("web", self._pod.uid, cause="Retire", withdrawn=True)
        return await self._writer.evict(self._namespace, Evict(withdrawn), OWNER)

    async def mark(self) -> str | None:
        """What it says is withdrawn of it."""
        pod = await self._client.get(PODS, "web", self._namespace)
        assert "deletionTimestamp" not in pod["metadata"]
        return pod["metadata"]["annotations"].get(moves.ANNOTATION_WITHDRAWN)

    async def ends(self) -> bool:
        """Whether it is on its way out, or gone."""
        try:
            pod = await self._client.get(PODS, "web", self._namespace)
        except NotFound:
            return True
        return "deletionTimestamp" in pod["metadata"]


@pytest_asyncio.fixture
async def trial(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Trial]:
    async with running(cluster) as deps:
        watching = asyncio.ensure_future(deps.proxies.informer.run())
        try:
            pod = await create(client, elected("web", namespace), [])
            conditions = [{"type": "Ready", "status": "True"}]
            status = {"status": {"phase": "Running", "conditions": conditions}}
            await client.patch(PODS, "web", status, namespace, sub="status", style="strategic")
            uid = pod["metadata"]["uid"]
            known = deps.proxies.informer.store
            await until(lambda: (found := known.get((namespace, "web"))) is not None and found.phase == "Running")
            yield Trial(client, namespace, Writer(deps), uid)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def test_a_pod_is_withdrawn_only_if_its_budget_would_let_it_go_and_serves_again_if_that_refuses_it_then(
    trial: Trial,
) -> None:
    await trial.budget(0)
    assert "disruption budget" in await trial.withdraw()
    assert await trial.mark() is None
    await trial.budget(1)
    assert await trial.withdraw() == ""
    assert await trial.mark() == '["app"]', "it was only tried"
    await trial.budget(0)
    assert "disruption budget" in await trial.evict()
    assert await trial.mark() is None
    await trial.budget(1)
    assert await trial.withdraw() == ""
    assert await trial.evict() == ""
    assert await trial.ends()
