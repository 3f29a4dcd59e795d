"""The CRDs on a real API server, which evaluates their CEL rules."""

import copy
import functools
import itertools
from typing import Any

import pytest

from agent.api.crds import crds
from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, CLUSTER_TARGETS, CRDS, SOURCES, TARGETS, Kind
from agent.kube.client import Client
from agent.kube.errors import Invalid, KubeError, NotFound
from hack.lab.sandbox.objects import apply
from tests.waiting import unserved, until

pytestmark = pytest.mark.cluster

SECRET = {"name": "s"}
MOMENT = "2026-01-01T00:00:00Z"


def made(kind: Kind, name: str = "x", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **fields}


@pytest.mark.parametrize(
    "spec",
    [
        {"self": True},
        {"kubeconfigSecret": SECRET},
        {"kubeconfigSecret": {**SECRET, "key": "k", "context": "c"}, "excludedLabelsRegexp": "^a="},
        {"self": False, "kubeconfigSecret": SECRET},
    ],
)
async def test_a_target_with_one_way_to_its_cluster_is_accepted(
    client: Client, namespace: str, spec: dict[str, Any]
) -> None:
    kept = await client.create(TARGETS, made(TARGETS, spec=spec), namespace)
    assert kept["spec"] == spec


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"spec": {"self": True, "kubeconfigSecret": SECRET}}, "exclude each other"),
        ({"spec": {}}, "set either self: true"),
        ({"spec": {"self": False}}, "set either self: true"),
        ({"spec": {"excludedLabelsRegexp": "a"}}, "set either self: true"),
        ({}, "spec: Required"),
        ({"spec": {"kubeconfigSecret": {}}}, "spec.kubeconfigSecret.name: Required"),
        ({"spec": {"kubeconfigSecret": {"name": ""}}}, "spec.kubeconfigSecret.name"),
    ],
)
async def test_a_target_with_no_or_two_ways_is_refused_with_the_reason(
    client: Client, namespace: str, fields: dict[str, Any], want: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(TARGETS, made(TARGETS, **fields), namespace)
    assert want in str(caught.value)


async def test_a_target_cannot_be_changed_into_one_with_two_ways(client: Client, namespace: str) -> None:
    await client.create(TARGETS, made(TARGETS, spec={"self": True}), namespace)
    with pytest.raises(Invalid, match="exclude each other"):
        await client.patch(TARGETS, "x", {"spec": {"kubeconfigSecret": SECRET}}, namespace)


async def test_a_cluster_targets_secret_needs_its_namespace(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match=r"kubeconfigSecret\.namespace: Required"):
        await client.create(CLUSTER_TARGETS, made(CLUSTER_TARGETS, namespace, spec={"kubeconfigSecret": SECRET}))
    spec = {"kubeconfigSecret": {**SECRET, "namespace": "n"}}
    await client.create(CLUSTER_TARGETS, made(CLUSTER_TARGETS, namespace, spec=spec))
    await client.delete(CLUSTER_TARGETS, namespace)


async def test_conditions_are_kept_on_the_status_subresource_only(client: Client, namespace: str) -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Fine",
        "message": "",
        "lastTransitionTime": MOMENT,
        "observedGeneration": 1,
    }
    status = {"conditions": [condition]}
    source = await client.create(SOURCES, made(SOURCES, spec={"userName": "u"}, status=status), namespace)
    assert "status" not in source
    patched = await client.patch(SOURCES, "x", {"status": status}, namespace, sub="status")
    assert patched["status"] == status
    wrong = {"status": {"conditions": [{**condition, "status": "Maybe"}]}}
    with pytest.raises(Invalid, match="Maybe"):
        await client.patch(SOURCES, "x", wrong, namespace, sub="status")


async def test_a_chaperon_keeps_fields_of_tomorrow(client: Client, namespace: str) -> None:
    spec = {"containers": [{"name": "a", "fieldOfTomorrow": {"x": [1]}}], "another": True}
    kept = await client.create(CHAPERONS, made(CHAPERONS, spec=spec), namespace)
    assert kept["spec"] == spec
    status = {"phase": "Running", "fieldOfTomorrow": [{"y": 1}]}
    patched = await client.patch(CHAPERONS, "x", {"status": status}, namespace, sub="status")
    assert patched["status"] == status


async def test_what_is_looked_at_in_a_chaperon_has_a_type_and_may_be_null(client: Client, namespace: str) -> None:
    container = {"name": "a"}
    spec = {"containers": [container], "nodeName": None, "priority": None, "tolerations": None, "initContainers": None}
    made_of = made(CHAPERONS, spec={**spec, "schedulingGates": [{"name": "x"}], "priority": 1000, "schedulerName": "s"})
    await client.create(CHAPERONS, made_of, namespace)
    await client.patch(CHAPERONS, "x", {"status": {"phase": "Running", "conditions": []}}, namespace, sub="status")
    wrong = {"nodeName": 5, "priority": "x", "schedulingGates": "x", "containers": [1], "volumes": {}}
    for field, value in wrong.items():
        bad = made(CHAPERONS, "y", spec={"containers": [container], field: value})
        with pytest.raises(Invalid, match=rf"spec\.{field}"):
            await client.create(CHAPERONS, bad, namespace)
    with pytest.raises(Invalid, match=r"status\.conditions"):
        await client.patch(CHAPERONS, "x", {"status": {"conditions": "x"}}, namespace, sub="status")


async def test_a_summary_takes_quantities_as_text_and_as_numbers(client: Client, namespace: str) -> None:
    amounts = {"cpu": 4, "memory": "16Gi"}
    summary = made(CLUSTER_SUMMARIES, namespace, capacity=amounts, allocatable={})
    assert (await client.create(CLUSTER_SUMMARIES, summary))["capacity"] == amounts
    await client.delete(CLUSTER_SUMMARIES, namespace)
    with pytest.raises(NotFound):
        await client.get(CLUSTER_SUMMARIES, namespace)


@pytest.mark.parametrize("amount", ["lots", "1e999999999 cores", "", "9" * 65])
async def test_a_summary_does_not_take_what_is_no_quantity(client: Client, namespace: str, amount: str) -> None:
    with pytest.raises(Invalid, match=r"allocatable\.cpu"):
        await client.create(CLUSTER_SUMMARIES, made(CLUSTER_SUMMARIES, namespace, allocatable={"cpu": amount}))


async def test_a_target_with_a_limit_from_before_the_check_keeps_its_status_and_can_be_mended(
    client: Client, namespace: str
) -> None:
    old = Kind("before.flotilla.test", "v1alpha1", "targets", "Target")
    crd = next(copy.deepcopy(crd) for crd in crds() if crd["metadata"]["name"] == str(TARGETS))
    crd["metadata"]["name"], crd["spec"]["group"] = str(old), old.group
    crd["spec"]["names"]["shortNames"] = []
    strict = copy.deepcopy(crd)
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["limits"][
        "additionalProperties"
    ] = {"x-kubernetes-int-or-string": True}
    await apply(client, CRDS, crd)
    try:
        spec = {"self": True, "limits": {"cpu": "lots", "pods": 3}}
        create = functools.partial(client.create, old, made(old, spec=spec), namespace)
        await until(create, what="the kind is served", forgiven=KubeError)
        await apply(client, CRDS, strict)

        tried = itertools.count()

        async def is_checked() -> bool:
            try:
                await client.patch(old, "x", {"spec": {"limits": {"cpu": f"lots-{next(tried)}"}}}, namespace)
            except Invalid as error:
                return "limits.cpu" in str(error)
            return False

        await until(is_checked, what="limits are checked")
        condition = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": MOMENT}
        await client.patch(old, "x", {"status": {"conditions": [condition]}}, namespace, sub="status")
        await client.patch(old, "x", {"metadata": {"finalizers": ["multicluster/drain"]}}, namespace)
        mended = await client.patch(
            old, "x", {"metadata": {"finalizers": None}, "spec": {"limits": {"cpu": 4}}}, namespace
        )
        assert mended["spec"]["limits"] == {"cpu": 4, "pods": 3}
    finally:
        await unserved(client, old)


async def test_the_api_server_accepts_every_schema_as_structural(client: Client) -> None:
    served = [crd for crd in await client.list(CRDS) if crd["spec"]["group"] == "multicluster.admiralty.io"]
    assert len(served) == 6
    for crd in served:
        conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions
