"""A real API server warns users whose manifests create pods, and never refuses them."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import NAMESPACES, PLACEMENTS, SERVICE_ACCOUNTS, TARGETS, Kind
from tests.ocm import object_of
from tests.waiting import until
from tests.webhook.replica import Place
from tests.webhook.test_app import target

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

ELECT = "multicluster.admiralty.io/elect"
KINDS = (
    Kind("apps", "v1", "deployments", "Deployment"),
    Kind("apps", "v1", "statefulsets", "StatefulSet"),
    Kind("apps", "v1", "replicasets", "ReplicaSet"),
    Kind("batch", "v1", "jobs", "Job"),
    Kind("batch", "v1", "cronjobs", "CronJob"),
)
DEPLOYMENTS = KINDS[0]


def workload(kind: Kind, *, owner: str = "", **annotations: str) -> Raw:
    """Return a workload whose pods need a service account."""
    labels = {"app": "web"}
    spec: Raw = {"serviceAccountName": "builder", "containers": [{"name": "main", "image": "app"}]}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    made: Raw = {"template": template, "selector": {"matchLabels": labels}}
    if kind.group == "batch":
        spec["restartPolicy"] = "Never"
        made = {"template": template}
    if kind.name == "StatefulSet":
        made["serviceName"] = "web"
    if kind.name == "CronJob":
        made = {"schedule": "@daily", "jobTemplate": {"spec": made}}
    metadata: Raw = {"name": "web"}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "8b7a2f6e", "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": made}


async def lacking(place: Place) -> None:
    """Return a target of the namespace that only has the default service account."""
    await place.client.create(TARGETS, target(TARGETS, "eu", place.namespace))
    status = {"status": {"namespaces": [{"name": place.namespace, "serviceAccounts": []}]}}
    await place.client.patch(TARGETS, "eu", status, place.namespace, sub="status")
    await place.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, place.namespace)


async def test_whoever_applies_a_workload_is_warned_once_with_the_remedy(place: Place) -> None:
    await lacking(place)
    async with place.replica():

        async def warned() -> bool:
            return bool(await place.warnings(DEPLOYMENTS, workload(DEPLOYMENTS, **{ELECT: ""})))

        await until(warned, what="the API server asks about workloads")
        for kind in KINDS:
            (warning,) = await place.warnings(kind, workload(kind, **{ELECT: ""}))
            assert f"service account builder does not exist in namespace {place.namespace} of Target eu" in warning
            assert "multicluster/follow-service-account=true" in warning
            assert await place.warnings(kind, workload(kind)) == [], "its pods stay here"
            owned = workload(kind, owner="CronJob" if kind.name == "Job" else "Deployment", **{ELECT: ""})
            assert await place.warnings(kind, owned) == [], "who applied its owner was warned"
        lacks = {"status": {"missingSchedulers": ["volcano"]}}
        await place.client.patch(TARGETS, "eu", lacks, place.namespace, sub="status")
        batch = workload(DEPLOYMENTS, **{ELECT: ""})
        batch["spec"]["template"]["spec"] |= {"schedulerName": "volcano", "serviceAccountName": "default"}

        async def told() -> list[str]:
            return await place.warnings(DEPLOYMENTS, batch)

        (warning,) = await until(told, what="the scheduler that the target lacks is told") or ()
        assert warning.startswith("scheduler volcano has looked at no pod of this cluster in Target eu: ")
        wrong = workload(DEPLOYMENTS, **{ELECT: "", "multicluster/scheduling": "never"})
        (warning,) = await place.warnings(DEPLOYMENTS, wrong)
        assert warning.startswith("its pods will be refused: ")
    assert (await place.client.create(DEPLOYMENTS, workload(DEPLOYMENTS, **{ELECT: ""}), place.namespace))["spec"]


@pytest.mark.usefixtures("placement_kinds")
async def test_whose_pods_are_to_follow_a_placement_that_is_not_there_is_warned(place: Place) -> None:
    await place.client.create(TARGETS, target(TARGETS, "eu", place.namespace))
    placed = workload(DEPLOYMENTS, **{ELECT: "", "multicluster/placement": "web"})
    told = f"annotation multicluster/placement: there is no Placement web in namespace {place.namespace}"
    async with place.replica():

        async def warned() -> bool:
            return any(told in each for each in await place.warnings(DEPLOYMENTS, placed))

        await until(warned, what="a Placement that is not there is told")
        stays = workload(DEPLOYMENTS, **{"multicluster/placement": "web"})
        assert await place.warnings(DEPLOYMENTS, stays) == [], "its pods stay here"
        await place.client.create(PLACEMENTS, object_of(PLACEMENTS, "web", place.namespace, spec={}))
        assert not await warned()


async def test_so_is_one_whose_pods_are_elected_by_default(place: Place) -> None:
    await lacking(place)
    label = {"metadata": {"labels": {names.LABEL_ELECT_BY_DEFAULT: "true"}}}
    await place.client.patch(NAMESPACES, place.namespace, label)
    async with place.replica():

        async def warned() -> bool:
            return bool(await place.warnings(DEPLOYMENTS, workload(DEPLOYMENTS)))

        await until(warned, what="the API server asks about workloads")
        for kind in KINDS:
            for annotations in ({}, {ELECT: ""}):
                assert len(await place.warnings(kind, workload(kind, **annotations))) == 1
            assert await place.warnings(kind, workload(kind, **{"multicluster/elect": "false"})) == []
