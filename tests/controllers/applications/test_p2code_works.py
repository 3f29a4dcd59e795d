"""P2CODE's applications as ManifestWorks on a hub: created, reported, moved and deleted; tests play work agents."""

import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.conditions import find_condition
from agent.api.kinds import (
    CONFIGMAPS,
    DEPLOYMENTS,
    MANIFEST_WORKS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SCHEDULING_MANIFESTS,
)
from agent.kube.errors import NotFound
from tests.controllers.applications.test_p2code import CLAIM, Stage, at_work, stage
from tests.controllers.pair import Pair
from tests.manifestworks import CLEANUP, WorkAgents, install, work_agents
from tests.model.applications import workload
from tests.namespaces import end
from tests.waiting import gone, unserved, until

__all__ = ["stage"]

Raw = dict[str, Any]

WORKS: Raw = {"p2code_distribution": "works", "discovery_interval": 1.0}
RULE = {"apiGroups": [MANIFEST_WORKS.group], "resources": ["manifestworks"]}
VERBS = ["get", "list", "create", "patch", "delete"]


@pytest_asyncio.fixture
async def agents(stage: Stage) -> AsyncIterator[WorkAgents]:
    """A hub: namespaces of the clusters, where the account may create ManifestWorks, and their work agents."""
    client = stage.client
    await install(client)
    clusters = [stage.hub.name(short) for short in ("eu", "us")]
    for cluster in clusters:
        await client.create(NAMESPACES, {"metadata": {"name": cluster}})
        await client.create(ROLES, {"metadata": {"name": "works"}, "rules": [{**RULE, "verbs": VERBS}]}, cluster)
        subject = {"kind": "ServiceAccount", "name": "p2code", "namespace": stage.namespace}
        role = {"apiGroup": ROLES.group, "kind": "Role", "name": "works"}
        bound = {"metadata": {"name": "works"}, "subjects": [subject], "roleRef": role}
        await client.create(ROLE_BINDINGS, bound, cluster)
    async with work_agents(client, *clusters) as agents:
        yield agents
    for cluster in clusters:
        await end(client, cluster)


async def works(stage: Stage) -> set[str]:
    """Return cluster and name of each ManifestWork that is not terminating."""
    found = await stage.client.list(MANIFEST_WORKS)
    return {
        f"{each['metadata']['namespace'].removeprefix(f'{stage.namespace}-')}/{each['metadata']['name']}"
        for each in found
        if not each["metadata"].get("deletionTimestamp")
    }


async def have(stage: Stage, *wanted: str) -> None:
    async def probe() -> bool:
        return await works(stage) == set(wanted)

    await until(probe, what=f"ManifestWorks {', '.join(wanted) or 'none'}")


async def work(stage: Stage, short: str, name: str) -> Raw:
    return await stage.client.get(MANIFEST_WORKS, name, stage.hub.name(short))


async def message(stage: Stage, type: str) -> str:
    status = (await stage.get(SCHEDULING_MANIFESTS, "shop")).get("status") or {}
    return str((find_condition(status.get("conditions"), type) or {}).get("message", ""))


async def test_bundles_are_manifest_works_which_move_once_they_are_ready_elsewhere_and_go(
    pair: Pair, stage: Stage, agents: WorkAgents
) -> None:
    async with at_work(pair, **WORKS):
        manifests = stage.objects("web", "api")
        for each in manifests[:2]:
            each["spec"]["replicas"] = 2
        await stage.create(manifests, web="eu", api="us")
        await stage.become("SchedulingSuccessful", web="eu", api="us")
        await have(stage, "eu/web-shop", "us/api-shop")
        web = await work(stage, "eu", "web-shop")
        assert web["metadata"]["labels"]["scheduling.p2code.eu/owner"] == "shop"
        assert [each["kind"] for each in web["spec"]["workload"]["manifests"]] == ["Deployment", "ConfigMap"]
        assert web["spec"]["workload"]["manifests"][0]["spec"] == manifests[0]["spec"]
        await stage.told("WorkloadsReady", "Ready", "ready: web 2 of 2, api 2 of 2")
        # No Deployment is created in the hub, and no object is written again.
        assert await stage.client.list(DEPLOYMENTS, stage.namespace) == []

        # The old ManifestWork is deleted once the new one is available; the other is unchanged.
        agents.ready["web"] = 0
        api = await work(stage, "us", "api-shop")
        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=us"]))
        await stage.become("SchedulingSuccessful", web="us", api="us")
        await stage.told("WorkloadsReady", "NotReady", "ready: web 0 of 2, api 2 of 2")
        assert await works(stage) == {"eu/web-shop", "us/web-shop", "us/api-shop"}
        del agents.ready["web"]
        await have(stage, "us/web-shop", "us/api-shop")
        await gone(functools.partial(work, stage, "eu", "web-shop"))
        now = await work(stage, "us", "api-shop")
        assert now["metadata"]["uid"] == api["metadata"]["uid"]
        assert now["metadata"]["generation"] == api["metadata"]["generation"]

        # A deleted ManifestWork is recreated.
        moved = await work(stage, "us", "web-shop")
        await stage.client.delete(MANIFEST_WORKS, "web-shop", stage.hub.name("us"))

        async def anew() -> bool:
            found = await work(stage, "us", "web-shop")
            return bool(found["metadata"]["uid"] != moved["metadata"]["uid"] and found.get("status"))

        await until(anew, forgiven=NotFound)
        await stage.become("SchedulingSuccessful", web="us", api="us")

        # A silent work agent delays the deletion.
        agents.silent.add(stage.hub.name("us"))
        await stage.client.delete(SCHEDULING_MANIFESTS, "shop", stage.namespace)

        async def held() -> bool:
            return CLEANUP in await message(stage, "ObjectsLeft")

        await until(held, what="it is told what holds ManifestWorks")
        agents.silent.clear()
        await gone(functools.partial(stage.get, SCHEDULING_MANIFESTS, "shop"))
        await have(stage)


@pytest.mark.full("Waits for two rounds of works; test_p2code.py keeps the order of what must not run twice.")
async def test_what_must_not_run_twice_waits_until_it_is_gone_elsewhere(
    pair: Pair, stage: Stage, agents: WorkAgents
) -> None:
    async with at_work(pair, **WORKS):
        db = workload("db", "StatefulSet", stage.namespace, selector={"matchLabels": {"app": "db"}}, serviceName="db")
        await stage.create([db], db="eu")
        await stage.become("SchedulingSuccessful", "UndefinedResources", db="eu")
        agents.silent.add(stage.hub.name("eu"))
        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=us"]))
        await stage.become("SchedulingInProgress", "PlacementDecisionReady", db="us")
        eu = stage.hub.name("eu")
        words = (
            f"workload db: ManifestWork {eu}/db-shop has to be gone first, and the work agent of {eu} has not let go of"
        )
        await stage.told("CannotMove", "StillThere", f"{words} it")
        await have(stage)
        agents.silent.clear()
        await have(stage, "us/db-shop")
        await stage.become("SchedulingSuccessful", "UndefinedResources", db="us")
        await stage.told("CannotMove")


@pytest.mark.full("Refusals of a work agent, one by one; the first test of this file keeps how works are reported.")
async def test_what_a_work_agent_and_what_the_api_server_refuses_is_told(
    pair: Pair, stage: Stage, agents: WorkAgents
) -> None:
    async with at_work(pair, **WORKS):
        agents.refused["web"] = 'namespaces "x" not found'
        await stage.create(stage.objects("web"), web="eu")
        await stage.become("SchedulingFailed", "ManifestWorkFailed", web="eu")
        where = f"Deployment {stage.namespace}/web in {stage.hub.name('eu')}"
        assert await message(stage, "SchedulingFailed") == (
            f'{where}: Failed to apply manifest: namespaces "x" not found'
        )
        agents.refused.clear()
        await stage.become("SchedulingSuccessful", web="eu")
        await stage.client.delete(ROLE_BINDINGS, "works", stage.hub.name("us"))
        await stage.edit(lambda spec: spec["workloadAnnotations"][0].update(annotations=[f"{CLAIM}=us"]))
        await stage.become("SchedulingFailed", "ManifestWorkFailed", web="us")
        told = await message(stage, "SchedulingFailed")
        assert f'User "system:serviceaccount:{stage.namespace}:p2code" cannot' in told
        assert "bind the account to the ClusterRole flotilla-p2code-works in the namespace of the cluster" in told
        # Running workloads stay.
        assert await works(stage) == {"eu/web-shop"}


async def test_the_distribution_of_one_that_is_there_may_change(pair: Pair, stage: Stage, agents: WorkAgents) -> None:
    async def say(distribution: str | None) -> None:
        body = {"metadata": {"annotations": {"multicluster/distribution": distribution}}}
        await stage.client.patch(SCHEDULING_MANIFESTS, "shop", body, stage.namespace)

    async with at_work(pair, discovery_interval=1.0):
        await stage.create(stage.objects("web"), web="eu")
        await stage.become("SchedulingSuccessful", web="eu")
        assert await stage.targets() == {"web": "to-eu"}
        await say("work")
        await stage.become("Misconfigured", "UnknownDistribution")
        assert await stage.targets() == {"web": "to-eu"}
        await say("works")
        await have(stage, "eu/web-shop")
        await stage.become("SchedulingSuccessful", web="eu")
        await gone(functools.partial(stage.get, DEPLOYMENTS, "web"))
        await gone(functools.partial(stage.get, CONFIGMAPS, "settings"))
        await say(None)
        await have(stage)
        await stage.become("SchedulingSuccessful", web="eu")

        async def applied_here() -> bool:
            return await stage.targets() == {"web": "to-eu"}

        await until(applied_here)


async def test_where_there_is_no_hub_it_says_so_until_there_is_one(pair: Pair, stage: Stage) -> None:
    with contextlib.suppress(NotFound):
        await unserved(stage.client, MANIFEST_WORKS)
    async with at_work(pair, **WORKS):
        await stage.create(stage.objects("web"), web="eu")
        await stage.become("SchedulingFailed", "ManifestWorkResourceMissing")
        told = await message(stage, "SchedulingFailed")
        assert told.startswith("ManifestWorks cannot be read (")
        assert "set the annotation multicluster/distribution to elect" in told
        await install(stage.client)
        # The cluster's namespace does not exist yet.
        await stage.become("SchedulingFailed", "ManifestWorkFailed", web="eu")
    await unserved(stage.client, MANIFEST_WORKS)
