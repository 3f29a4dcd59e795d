"""Evictions through a real API server, with a disruption budget."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import PODS, Kind
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.replacement import stand_in
from agent.moves.mover.view import Create, Evict, Owner, Pod
from agent.moves.mover.writer import Refusal, Writer
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import create, elected
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
OWNER = Owner("StatefulSet", "db", "evict")


class Trial:
    """A running proxy pod, and the writer that evicts it."""

    def __init__(self, client: Client, namespace: str, writer: Writer, uid: str) -> None:
        self._client, self._namespace, self._writer = client, namespace, writer
        self._pod = Pod("web", uid, cause="Retire")

    async def replace(self, name: str) -> Refusal | None:
        """Create a replacement of this name; return the reason if it is refused."""
        old = replace(self._pod, cause="Targets")
        await self._writer.create(OWNER, self._owner(), Create(old, name), "app")
        return self.refusal

    async def may_end(self) -> bool:
        """Return whether a new pod of the owner would be a proxy pod."""
        return await self._writer.is_elected(OWNER, self._owner())

    async def may_end_of(self, owner: dict[str, Any]) -> bool:
        """Return whether the pod may be evicted if its controller is this owner."""
        pod = await self._client.get(PODS, "web", self._namespace)
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        return await self._writer.is_elected(Owner("Cell", "", "evict"), stand_in(pod))

    def refusal_of(self, uid: str) -> Refusal | None:
        """Return the reason that blocks evictions of an owner's pods; None if there is none."""
        return self._writer.refusals.get(uid)

    def _owner(self) -> dict[str, Any]:
        head = {"name": "web", "namespace": self._namespace, "uid": "rs"}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": elected("web", self._namespace)["spec"]}
        about = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": head}
        return {**about, "spec": {"template": template, "selector": {"matchLabels": {"app": "web"}}}}

    async def names(self) -> set[str]:
        """Return the names of all pods in the namespace."""
        return {pod["metadata"]["name"] for pod in await self._client.list(PODS, self._namespace)}

    async def take(self, name: str) -> None:
        """Create a pod of this name that is not a proxy pod."""
        await self._client.create(PODS, elected(name, self._namespace))

    @property
    def refusal(self) -> Refusal | None:
        """Return the reason that blocks evictions of the ReplicaSet's pods; None if there is none."""
        return self.refusal_of("rs")

    async def budget(self, allowed: int) -> None:
        """Create a budget that allows this many disruptions."""
        wanted = {"spec": {"minAvailable": 1 - allowed, "selector": {"matchLabels": {"app": "web"}}}}
        with contextlib.suppress(NotFound):
            await self._client.delete(BUDGETS, "web", self._namespace)
        await self._client.create(BUDGETS, {"metadata": {"name": "web"}, **wanted}, self._namespace)

        async def counted() -> bool:
            status = (await self._client.get(BUDGETS, "web", self._namespace)).get("status") or {}
            return status.get("observedGeneration") == 1 and status.get("disruptionsAllowed") == allowed

        await until(counted)

    async def evict(self, **fields: Any) -> str:
        return await self._writer.evict(self._namespace, Evict(replace(self._pod, **fields)), OWNER)

    async def ends(self) -> bool:
        """Return whether the pod is terminating or has been deleted."""
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


async def test_a_pod_is_evicted_once_its_budget_lets_it_go(trial: Trial) -> None:
    await trial.budget(0)
    assert "disruption budget" in await trial.evict()
    assert not await trial.ends()
    await trial.budget(1)
    assert await trial.evict() == ""
    assert await trial.ends()


async def test_no_budget_keeps_a_pod_in_a_lost_target_whose_last_status_is_ready(trial: Trial) -> None:
    """Nothing updates that status, so the budget would count the pod as healthy forever."""
    await trial.budget(0)
    assert "disruption budget" in await trial.evict(cause="Lost", answers=True, available=True), "it serves"
    assert not await trial.ends()
    assert await trial.evict(cause="Lost", answers=False, available=True) == ""
    assert await trial.ends()


async def test_where_no_webhook_makes_proxy_pods_nothing_ends_for_one_that_would_run_here(trial: Trial) -> None:
    assert not await trial.may_end()
    assert trial.refusal is not None
    assert (trial.refusal.passes, trial.refusal.stands) == (True, True)
    assert "it would run here" in trial.refusal.message
    assert await trial.replace("web-n") is trial.refusal
    assert await trial.names() == {"web"}, "it was only tried"


async def test_nor_does_one_of_an_owner_of_which_nothing_is_known_but_its_pod(trial: Trial) -> None:
    owner = {"apiVersion": "example.org/v1", "kind": "Cell", "name": "web", "uid": "cell"}
    assert not await trial.may_end_of(owner)
    refusal = trial.refusal_of("cell")
    assert refusal is not None
    assert "it would run here" in refusal.message
    assert await trial.names() == {"web"}, "it was only tried"


async def test_a_name_that_another_pod_has_is_said_and_not_tried_again_at_once(trial: Trial) -> None:
    await trial.take("taken")
    refusal = await trial.replace("taken")
    assert refusal is not None
    assert (refusal.passes, refusal.stands, refusal.tries) == (True, True, 0)
    assert "pod taken has its name, and is none: delete that pod" in refusal.message
