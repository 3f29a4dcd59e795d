"""Setup of the applied benchmark: CRDs, claims, a service account, and the application itself."""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any

from agent.api.crds import p2code_crds
from agent.api.kinds import (
    CLUSTER_CLAIMS,
    CLUSTER_ROLES,
    CRDS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    SCHEDULING_MANIFESTS,
    SERVICE_ACCOUNTS,
    Kind,
)
from agent.api.names.ocm import GLOBAL_SET
from agent.kube.client import Client
from hack.lab.benchmarks.lab import Lab, until
from hack.lab.benchmarks.manifests import DEPLOYMENTS, pod_template
from hack.lab.benchmarks.placement import install
from hack.lab.sandbox.manifests import AGENT_NAMESPACE, NAMESPACE

Raw = dict[str, Any]

NAME = "application"
_ACCOUNT = "p2code"
_CLAIM = "p2code.filter.site"
_PART = "part"


async def prepare(lab: Lab) -> None:
    """Install the CRDs; create a claim in each target, a bound set, and the account that applies applications."""
    source = lab.source
    await asyncio.gather(*(_claim(target) for target in lab.targets))
    await install(source)
    for definition in p2code_crds():
        await source.create_raw(CRDS, definition)
    await until("applications are served", functools.partial(_served, source, SCHEDULING_MANIFESTS))
    binding = _object(MANAGED_CLUSTER_SET_BINDINGS, GLOBAL_SET, spec={"clusterSet": GLOBAL_SET})
    await source.create(MANAGED_CLUSTER_SET_BINDINGS, binding, NAMESPACE)
    await source.create(SERVICE_ACCOUNTS, _object(SERVICE_ACCOUNTS, _ACCOUNT), NAMESPACE)
    verbs = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [_ACCOUNT], "verbs": ["impersonate"]}
    await source.create(ROLES, _object(ROLES, "flotilla-p2code", rules=[verbs]), NAMESPACE)
    agent, account = (AGENT_NAMESPACE, "flotilla-agent"), (NAMESPACE, _ACCOUNT)
    for name, role, (home, subject) in (
        ("flotilla-p2code", (ROLES, "flotilla-p2code"), agent),
        (_ACCOUNT, (CLUSTER_ROLES, "edit"), account),
    ):
        kind, of = role
        reference = {"apiGroup": kind.group, "kind": kind.name, "name": of}
        subjects = [{"kind": SERVICE_ACCOUNTS.name, "name": subject, "namespace": home}]
        await source.create(
            ROLE_BINDINGS, _object(ROLE_BINDINGS, name, roleRef=reference, subjects=subjects), NAMESPACE
        )
    await until("the ManagedClusters have their claims", functools.partial(_claimed, lab))


async def _claim(target: Client) -> None:
    """Set a claim that contains the name of the cluster as its site."""
    value = {"type": "object", "properties": {"value": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": value}}}
    kind = CLUSTER_CLAIMS
    spec = {
        "group": kind.group,
        "scope": "Cluster",
        "names": {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()},
        "versions": [{"name": kind.version, "served": True, "storage": True, "schema": schema}],
    }
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/2149"}
    await target.create(CRDS, _object(CRDS, str(kind), spec=spec, metadata={"annotations": approved}))
    await until("ClusterClaims are served", functools.partial(_served, target, kind))
    await target.create(kind, _object(kind, _CLAIM, spec={"value": target.name}))


async def _claimed(lab: Lab) -> bool:
    claims = {
        claim["value"]
        for each in await lab.source.list(MANAGED_CLUSTERS)
        for claim in each.get("status", {}).get("clusterClaims") or ()
        if claim["name"] == _CLAIM
    }
    return claims == {target.name for target in lab.targets}


async def _served(client: Client, kind: Kind) -> bool:
    await client.list_raw(kind)
    return True


def _object(kind: Kind, name: str, **fields: Any) -> Raw:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **fields}


def deployment(number: int, namespace: str) -> Raw:
    """Return one of the application's Deployments."""
    template = pod_template(NAME, elected=False)
    template["metadata"]["labels"][_PART] = f"w{number}"
    template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": f"w{number}", "optional": True}}]
    spec = {"selector": {"matchLabels": {_PART: f"w{number}"}}, "template": template}
    return _object(DEPLOYMENTS, f"w{number}", spec=spec, metadata={"namespace": namespace})


def application(workloads: int, clusters: Sequence[str]) -> Raw:
    """Return an application of Deployments that each have one pod, a ConfigMap and a Service.

    Each calls the next one, and consecutive ones are in different clusters.
    """
    manifests = []
    for number in range(workloads):
        name, workload = f"w{number}", deployment(number, NAMESPACE)
        called = {"name": "NEXT", "value": f"http://w{(number + 1) % workloads}:8080/"}
        workload["spec"]["template"]["spec"]["containers"][0]["env"] = [called]
        own = {"metadata": {"name": name, "namespace": NAMESPACE}}
        service = {"selector": {_PART: name}, "ports": [{"port": 8080}]}
        manifests += [
            workload,
            {"apiVersion": "v1", "kind": "ConfigMap", **own, "data": {"LEVEL": "info"}},
            {"apiVersion": "v1", "kind": "Service", **own, "spec": service},
        ]
    filters = [
        {"name": f"w{number}", "annotations": [f"{_CLAIM}={clusters[number % len(clusters)]}"]}
        for number in range(workloads)
    ]
    spec = {
        "globalAnnotations": [f"p2code.target.managedClusterSet={GLOBAL_SET}"],
        "workloadAnnotations": filters,
        "manifests": manifests,
    }
    return _object(SCHEDULING_MANIFESTS, NAME, spec=spec, metadata={"namespace": NAMESPACE})
