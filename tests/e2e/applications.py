"""P2CODE applications on a fleet: CRDs and rights that the source needs, and the state of an application."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import yaml

from agent.api.conditions import find_condition
from agent.api.crds import p2code_crds
from agent.api.kinds import (
    CLUSTER_CLAIMS,
    CLUSTER_ROLES,
    CRDS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SCHEDULING_MANIFESTS,
    SERVICE_ACCOUNTS,
)
from agent.kube.client import Client
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from hack.lab.sandbox.objects import apply
from tests.api.test_p2code_crd import EXAMPLE
from tests.controllers.targets.test_summary import definition, fact
from tests.e2e.fleet import Fleet
from tests.ocm import install, object_of
from tests.waiting import unserved

Raw = dict[str, Any]

ACCOUNT = "p2code"
CLAIM = "p2code.filter.k8sdistribution"
DISTRIBUTIONS = {"us": "kubernetes", "eu": "openshift"}
REPLICAS = {"httpd": 2, "nginx": 2, "hello-frontend": 1, "hello-backend": 3}
HOMES = {"httpd": "us", "nginx": "eu", "hello-frontend": "us", "hello-backend": "eu"}
"""Expected cluster of each workload in the example."""


def article() -> Raw:
    """Return the example application of the article about P2CODE."""
    psm: Raw = yaml.safe_load(EXAMPLE.read_text())
    return psm


@contextlib.asynccontextmanager
async def served(fleet: Fleet) -> AsyncIterator[None]:
    """Install the CRDs in the source, and a cluster claim for the distribution in each target."""
    await install(fleet.source)
    await apply(fleet.source, CRDS, *p2code_crds())
    await asyncio.gather(*(_claim(fleet, cluster, value) for cluster, value in DISTRIBUTIONS.items()))
    yield
    for cluster in DISTRIBUTIONS:
        await unserved(fleet.clients[cluster], CLUSTER_CLAIMS)
    await unserved(fleet.source, SCHEDULING_MANIFESTS)


async def _claim(fleet: Fleet, cluster: str, value: str) -> None:
    client = fleet.clients[cluster]
    await apply(client, CRDS, definition(CLUSTER_CLAIMS))
    await fleet.until(f"{cluster} serves claims", functools.partial(_serves, client))
    await client.create(CLUSTER_CLAIMS, fact(CLUSTER_CLAIMS, CLAIM, value))


async def _serves(client: Client) -> bool:
    await client.list(CLUSTER_CLAIMS)
    return True


async def grant(fleet: Fleet, namespace: str, cluster_set: str) -> None:
    """Bind a cluster set to a namespace, and create its service account with the role `edit`, which the agent
    may impersonate."""
    source = fleet.source
    binding = object_of(MANAGED_CLUSTER_SET_BINDINGS, cluster_set, namespace, spec={"clusterSet": cluster_set})
    await source.create(MANAGED_CLUSTER_SET_BINDINGS, binding, namespace)
    await source.create(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT}}, namespace)
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [ACCOUNT], "verbs": ["impersonate"]}
    await source.create(ROLES, {"metadata": {"name": "flotilla-p2code"}, "rules": [rule]}, namespace)
    agent = {"kind": "ServiceAccount", "name": "flotilla-agent", "namespace": AGENT_NAMESPACE}
    for name, kind, role, subject in (
        ("flotilla-p2code", ROLES, "flotilla-p2code", agent),
        (ACCOUNT, CLUSTER_ROLES, "edit", account(namespace)),
    ):
        reference = {"apiGroup": kind.group, "kind": kind.name, "name": role}
        bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await source.create(ROLE_BINDINGS, bound, namespace)


def account(namespace: str) -> Raw:
    """The service account whose rights are used to apply a namespace's applications."""
    return {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}


async def claimed(fleet: Fleet, namespace: str) -> None:
    """Wait until the ManagedClusters have the cluster claims."""

    async def probe() -> bool:
        found = {
            each["metadata"]["name"]: {c["name"]: c["value"] for c in each.get("status", {}).get("clusterClaims") or ()}
            for each in await fleet.source.list(MANAGED_CLUSTERS)
        }
        return all(found.get(cluster, {}).get(CLAIM) == value for cluster, value in DISTRIBUTIONS.items())

    await fleet.until("ManagedClusters have the claims", probe, about=namespace)


async def where(fleet: Fleet, namespace: str) -> dict[str, set[str]]:
    """Return the clusters of each app's delegates."""
    found: dict[str, set[str]] = {}
    delegates = await fleet.delegates(namespace)
    for proxy in await fleet.source.list(PODS, namespace):
        uid = proxy["metadata"]["uid"]
        if uid in delegates:
            found.setdefault(proxy["metadata"]["labels"]["app"], set()).add(delegates[uid][0])
    return found


async def become(fleet: Fleet, namespace: str, state: str, **decisions: str) -> Raw:
    """Wait until the application `example` has a state and these decisions; return it."""

    async def probe() -> Raw | None:
        psm = await fleet.source.get(SCHEDULING_MANIFESTS, "example", namespace)
        status = psm.get("status") or {}
        found = {each["workloadName"]: each["clusterSelected"] for each in status.get("decisions") or ()}
        return psm if status.get("state") == state and found == decisions else None

    return await fleet.until(f"the application is {state}", probe, about=namespace) or {}


async def ready(fleet: Fleet, namespace: str, replicas: Mapping[str, int], *, seconds: float = 60.0) -> None:
    """Wait until the application's WorkloadsReady condition reports all pods as ready."""
    want = f"ready: {', '.join(f'{app} {count} of {count}' for app, count in replicas.items())}"

    async def probe() -> bool:
        told = conditions(await fleet.source.get(SCHEDULING_MANIFESTS, "example", namespace), "WorkloadsReady")
        return (told.get("status"), told.get("message")) == ("True", want)

    await fleet.until("the application says that its pods are ready", probe, about=namespace, seconds=seconds)


def conditions(psm: Raw, kind: str) -> Mapping[str, Any]:
    """Return a condition of an application by type; {} if there is none."""
    return find_condition((psm.get("status") or {}).get("conditions"), kind) or {}


async def uids(fleet: Fleet, namespace: str, apps: Sequence[str]) -> dict[str, set[tuple[str, str]]]:
    """Return the UIDs of each app's proxy pods, paired with those of their delegates."""
    delegates = await fleet.delegates(namespace)
    found: dict[str, set[tuple[str, str]]] = {app: set() for app in apps}
    for proxy in await fleet.pods(namespace):
        uid, app = proxy["metadata"]["uid"], proxy["metadata"]["labels"].get("app", "")
        if app in found and uid in delegates:
            found[app].add((uid, delegates[uid][1]["metadata"]["uid"]))
    return found
