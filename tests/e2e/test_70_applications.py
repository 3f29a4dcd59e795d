"""Promise 70: a single object describes a whole application. Each bundle runs where its filters select, and
moves when they change."""

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from agent.api.kinds import PLACEMENTS, PODS, SCHEDULING_MANIFESTS, SERVICES
from agent.api.names.ocm import GLOBAL_SET
from tests.e2e import applications
from tests.e2e.applications import CLAIM, HOMES, REPLICAS, become, where
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]


@pytest_asyncio.fixture(loop_scope="session")
async def placing(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Namespace whose targets claim a distribution each, and a service account with the rights to apply
    applications."""
    async with applications.served(fleet):
        await applications.grant(fleet, namespace, GLOBAL_SET)
        await applications.claimed(fleet, namespace)
        yield namespace


def example(namespace: str) -> Raw:
    """Return the example of the article about P2CODE, in an existing namespace."""
    psm = applications.article()
    psm["metadata"]["namespace"] = namespace
    psm["spec"]["globalAnnotations"] = [f"p2code.target.managedClusterSet={GLOBAL_SET}"]
    psm["spec"]["manifests"] = [each for each in psm["spec"]["manifests"] if each["kind"] != "Namespace"]
    for each in psm["spec"]["manifests"]:
        each["metadata"]["namespace"] = namespace
    return psm


async def test_the_example_of_the_article_runs_moves_and_goes(fleet: Fleet, placing: str) -> None:
    source = fleet.source
    # Nothing is created until everything fits.
    psm = example(placing)
    main = psm["spec"]["manifests"][0]["spec"]["template"]["spec"]["containers"][0]
    fitting = copy.deepcopy(main.get("resources"))
    main["resources"] = {"requests": {"cpu": "1000"}}
    await source.create(SCHEDULING_MANIFESTS, psm)
    told = await become(fleet, placing, "SchedulingFailed")
    failed = applications.conditions(told, "SchedulingFailed")
    assert failed["reason"] == "NotAllDecisionsScheduled"
    assert "selected for workload httpd: us: insufficient cpu on every node" in failed["message"]
    assert await source.list(DEPLOYMENTS, placing) == []
    main["resources"] = fitting or {}
    await source.patch(SCHEDULING_MANIFESTS, "example", {"spec": psm["spec"]}, placing)
    await become(fleet, placing, "SchedulingSuccessful", **HOMES)
    for app, count in REPLICAS.items():
        await fleet.running(placing, app, count)
    await applications.ready(fleet, placing, REPLICAS)
    assert await where(fleet, placing) == {app: {cluster} for app, cluster in HOMES.items()}
    before = {app: {each["metadata"]["uid"] for each in await fleet.pods(placing, app)} for app in REPLICAS}

    # Only the pods of the bundle whose filter changes are replaced.
    psm = await source.get(SCHEDULING_MANIFESTS, "example", placing)
    psm["spec"]["workloadAnnotations"][0]["annotations"] = [f"{CLAIM}=openshift"]
    await source.patch(SCHEDULING_MANIFESTS, "example", {"spec": psm["spec"]}, placing)
    await become(fleet, placing, "SchedulingSuccessful", **{**HOMES, "httpd": "eu"})

    async def moved() -> bool:
        return (await where(fleet, placing)).get("httpd") == {"eu"} and len(await fleet.pods(placing, "httpd")) == 2

    await fleet.until("the pods of httpd have moved", moved, about=placing, seconds=120)
    after = {app: {each["metadata"]["uid"] for each in await fleet.pods(placing, app)} for app in REPLICAS}
    assert not before.pop("httpd") & after.pop("httpd")
    assert after == before

    # A workload removed from the application is deleted with its Placement.
    psm["spec"]["workloadAnnotations"].pop(0)
    psm["spec"]["manifests"].pop(0)
    await source.patch(SCHEDULING_MANIFESTS, "example", {"spec": psm["spec"]}, placing)
    await fleet.gone(PLACEMENTS, "httpd-example", placing)
    await fleet.gone(DEPLOYMENTS, "httpd", placing)

    await source.delete(SCHEDULING_MANIFESTS, "example", placing)
    await fleet.gone(SCHEDULING_MANIFESTS, "example", placing)
    assert await source.list(DEPLOYMENTS, placing) == []
    assert await source.list(PODS, placing) == []
    assert "backend" not in {each["metadata"]["name"] for each in await source.list(SERVICES, placing)}

    async def gone() -> bool:
        return await source.list(PLACEMENTS, placing) == []

    await fleet.until("its Placements are gone", gone, about=placing)
