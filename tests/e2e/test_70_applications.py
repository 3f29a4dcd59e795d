"""Promise 70: a whole application in one object: each bundle runs where its filters say, and moves when they change."""

import copy
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
import yaml

from agent.api.conditions import find_condition
from agent.api.crds import p2code_crds
from agent.api.kinds import (
    CLUSTER_CLAIMS,
    CLUSTER_ROLES,
    CRDS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    PLACEMENTS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCHEDULING_MANIFESTS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from agent.api.names.ocm import GLOBAL_SET
from agent.kube.client import Client
from agent.sandbox.manifests import AGENT_NAMESPACE
from agent.sandbox.objects import apply
from tests.api.test_p2code_crd import EXAMPLE
from tests.controllers.test_summary import definition, fact
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.ocm import install, object_of
from tests.waiting import unserved

Raw = dict[str, Any]

CLAIM = "p2code.filter.k8sdistribution"
DISTRIBUTIONS = {"us": "kubernetes", "eu": "openshift"}
REPLICAS = {"httpd": 2, "nginx": 2, "hello-frontend": 1, "hello-backend": 3}
HOMES = {"httpd": "us", "nginx": "eu", "hello-frontend": "us", "hello-backend": "eu"}


@pytest_asyncio.fixture(loop_scope="session")
async def placing(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """A namespace whose targets claim a distribution each, with an account by whose rights applications are applied."""
    source = fleet.source
    await install(source)
    await apply(source, CRDS, *p2code_crds())
    for cluster, value in DISTRIBUTIONS.items():
        await apply(fleet.clients[cluster], CRDS, definition(CLUSTER_CLAIMS))
        await fleet.until(f"{cluster} serves claims", functools.partial(_serves, fleet.clients[cluster]))
        await fleet.clients[cluster].create(CLUSTER_CLAIMS, fact(CLUSTER_CLAIMS, CLAIM, value))
    binding = object_of(MANAGED_CLUSTER_SET_BINDINGS, GLOBAL_SET, namespace, spec={"clusterSet": GLOBAL_SET})
    await source.create(MANAGED_CLUSTER_SET_BINDINGS, binding, namespace)
    await source.create(SERVICE_ACCOUNTS, {"metadata": {"name": "p2code"}}, namespace)
    agent = {"kind": "ServiceAccount", "name": "flotilla-agent", "namespace": AGENT_NAMESPACE}
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["p2code"], "verbs": ["impersonate"]}
    await source.create(ROLES, {"metadata": {"name": "flotilla-p2code"}, "rules": [rule]}, namespace)
    for name, kind, subject in (
        ("flotilla-p2code", "Role", agent),
        ("p2code", "ClusterRole", {"kind": "ServiceAccount", "name": "p2code", "namespace": namespace}),
    ):
        role = {"apiGroup": CLUSTER_ROLES.group, "kind": kind, "name": name if kind == "Role" else "edit"}
        bound = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        await source.create(ROLE_BINDINGS, bound, namespace)

    async def claimed() -> bool:
        found = {
            each["metadata"]["name"]: {c["name"]: c["value"] for c in each.get("status", {}).get("clusterClaims") or ()}
            for each in await source.list(MANAGED_CLUSTERS)
        }
        return all(found.get(cluster, {}).get(CLAIM) == value for cluster, value in DISTRIBUTIONS.items())

    await fleet.until("ManagedClusters have the claims", claimed, about=namespace)
    yield namespace
    for cluster in DISTRIBUTIONS:
        await unserved(fleet.clients[cluster], CLUSTER_CLAIMS)
    await unserved(source, SCHEDULING_MANIFESTS)


async def _serves(client: Client) -> bool:
    await client.list(CLUSTER_CLAIMS)
    return True


def example(namespace: str) -> Raw:
    """What the article about P2CODE shows, in a namespace that there is."""
    psm: Raw = copy.deepcopy(yaml.safe_load(EXAMPLE.read_text()))
    psm["metadata"]["namespace"] = namespace
    psm["spec"]["globalAnnotations"] = [f"p2code.target.managedClusterSet={GLOBAL_SET}"]
    psm["spec"]["manifests"] = [each for each in psm["spec"]["manifests"] if each["kind"] != "Namespace"]
    for each in psm["spec"]["manifests"]:
        each["metadata"]["namespace"] = namespace
    return psm


async def where(fleet: Fleet, namespace: str) -> dict[str, set[str]]:
    """The clusters that pods of each application are in."""
    found: dict[str, set[str]] = {}
    delegates = await fleet.delegates(namespace)
    for proxy in await fleet.source.list(PODS, namespace):
        uid = proxy["metadata"]["uid"]
        if uid in delegates:
            found.setdefault(proxy["metadata"]["labels"]["app"], set()).add(delegates[uid][0])
    return found


async def become(fleet: Fleet, namespace: str, state: str, **decisions: str) -> Raw:
    async def probe() -> Raw | None:
        psm = await fleet.source.get(SCHEDULING_MANIFESTS, "example", namespace)
        status = psm.get("status") or {}
        found = {each["workloadName"]: each["clusterSelected"] for each in status.get("decisions") or ()}
        return psm if status.get("state") == state and found == decisions else None

    return await fleet.until(f"the application is {state}", probe, about=namespace) or {}


async def _ready(source: Client, namespace: str) -> bool:
    psm = await source.get(SCHEDULING_MANIFESTS, "example", namespace)
    found = find_condition(psm["status"]["conditions"], "WorkloadsReady") or {}
    counts = (f"{app} {count} of {count}" for app, count in REPLICAS.items())
    return found.get("status") == "True" and found.get("message") == f"ready: {', '.join(counts)}"


async def test_the_example_of_the_article_runs_moves_and_goes(fleet: Fleet, placing: str) -> None:
    source = fleet.source
    # Nothing is there before everything fits.
    psm = example(placing)
    main = psm["spec"]["manifests"][0]["spec"]["template"]["spec"]["containers"][0]
    fitting = copy.deepcopy(main.get("resources"))
    main["resources"] = {"requests": {"cpu": "1000"}}
    await source.create(SCHEDULING_MANIFESTS, psm)
    told = await become(fleet, placing, "SchedulingFailed")
    failed = find_condition(told["status"]["conditions"], "SchedulingFailed") or {}
    assert failed["reason"] == "NotAllDecisionsScheduled"
    assert "selected for workload httpd: us: insufficient cpu on every node" in failed["message"]
    assert await source.list(DEPLOYMENTS, placing) == []
    main["resources"] = fitting or {}
    await source.patch(SCHEDULING_MANIFESTS, "example", {"spec": psm["spec"]}, placing)
    await become(fleet, placing, "SchedulingSuccessful", **HOMES)
    for app, count in REPLICAS.items():
        await fleet.running(placing, app, count)
    await fleet.until("the application says that its pods are ready", functools.partial(_ready, source, placing))
    assert await where(fleet, placing) == {app: {cluster} for app, cluster in HOMES.items()}
    before = {app: {each["metadata"]["uid"] for each in await fleet.pods(placing, app)} for app in REPLICAS}

    # One bundle is asked to be elsewhere: its pods are replaced there, and no others.
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

    # A workload that is not in it any more goes, with its Placement.
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
