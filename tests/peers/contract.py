"""Admiralty's contract for the doubles, in its own words: keys, permissions, and the structure of its objects."""

import json
from collections.abc import Iterable
from typing import Any

import yaml

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SUMMARIES,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
from agent.kube.client import Client
from hack.lab.sandbox.objects import apply
from tests.e2e.fleet import token_of
from tests.e2e.rights import Asked

Raw = dict[str, Any]

P = "multicluster.admiralty.io/"
PARENT_UID = P + "parent-uid"
CLUSTER_NAME = P + "parent-cluster-name"
PARENT_NAME = P + "parent-name"
PARENT_NAMESPACE = P + "parent-namespace"
RESERVED = P + "is-reserved"
ALLOWED = P + "is-allowed"
MISSING = P + "pod-missing-since"
MANIFEST = P + "sourcepod-manifest"
PROVIDER = "virtual-kubelet.io/provider"
CANDIDATE = "admiralty-candidate"
PROXY = "admiralty-proxy"

_RBAC = "rbac.authorization.k8s.io"
_OURS = CLUSTER_SUMMARIES.group
_FOLLOWED = ("get", "list", "watch", "create", "update", "delete")


def _rule(group: str, resources: str, *verbs: str) -> Raw:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}


SOURCE_RULES = [
    _rule(_OURS, "podchaperons", *_FOLLOWED, "deletecollection", "patch"),
    _rule(_OURS, "podchaperons/finalizers sources/finalizers", "update"),
    _rule("", "pods/finalizers", "update"),
    _rule("", "services secrets configmaps", *_FOLLOWED),
    _rule("networking.k8s.io", "ingresses", *_FOLLOWED),
    _rule("", "pods", "list"),
    _rule("", "pods/log", "get"),
    _rule("", "pods/exec", "create"),
]
"""Role of sources (section 9), without `get` of pods."""
VIEWER_RULES = [_rule(_OURS, "clustersummaries", "get", "list", "watch")]
AGENT_RULES = [
    _rule(_OURS, "podchaperons", "get", "list", "watch", "update", "patch"),
    _rule(_OURS, "podchaperons/status", "update"),
    _rule(_OURS, "clustersummaries", "get", "create", "update"),
    _rule("", "pods", "get", "list", "watch", "create", "update", "delete", "patch"),
    _rule("", "pods/status", "update"),
    _rule("", "pods/binding", "create"),
    _rule("", "nodes", "get", "list", "watch"),
]
"""Permissions of Admiralty's agent and candidate scheduler in their own cluster, as far as a target needs them."""


async def grant(client: Client, namespace: str, account: str) -> None:
    """Grant a source exactly the verbs of Admiralty's two roles in a namespace."""
    await apply(client, SERVICE_ACCOUNTS, _manifest("v1", "ServiceAccount", account, namespace))
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    for role, rules in (("admiralty-source", SOURCE_RULES), ("admiralty-cluster-summary-viewer", VIEWER_RULES)):
        await apply(client, CLUSTER_ROLES, _manifest(f"{_RBAC}/v1", "ClusterRole", role) | {"rules": rules})
    for kind, name, role in (
        (ROLE_BINDINGS, f"admiralty-source-{account}", "admiralty-source"),
        (
            CLUSTER_ROLE_BINDINGS,
            f"admiralty-source-{namespace}-{account}-cluster-summary-viewer",
            "admiralty-cluster-summary-viewer",
        ),
    ):
        body = _manifest(kind.api_version, kind.name, name, namespace if kind.namespaced else "")
        reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
        await apply(client, kind, body | {"roleRef": reference, "subjects": [subject]})


async def agents_token(client: Client, namespace: str) -> str:
    """Return the token of an account with exactly the permissions of Admiralty's agent in a cluster."""
    name = "admiralty"
    await apply(client, SERVICE_ACCOUNTS, _manifest("v1", "ServiceAccount", name, namespace))
    await apply(client, CLUSTER_ROLES, _manifest(f"{_RBAC}/v1", "ClusterRole", name) | {"rules": AGENT_RULES})
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    body = _manifest(f"{_RBAC}/v1", "ClusterRoleBinding", name)
    await apply(client, CLUSTER_ROLE_BINDINGS, body | {"roleRef": reference, "subjects": subjects})
    return await token_of(client, name, namespace)


def beyond(requests: Iterable[Asked], user: str) -> list[str]:
    """Return a user's requests beyond Admiralty's roles for sources, including refused ones."""
    granted = {
        (group, resource, verb)
        for rule in (*SOURCE_RULES, *VIEWER_RULES)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    found = set()
    for one in requests:
        what = one.object_ref
        if one.user.username == user and what is not None:
            resource = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
            if (what.api_group, resource, one.verb) not in granted:
                found.add(f"{one.verb} {resource}.{what.api_group}")
    return sorted(found)


def _manifest(version: str, kind: str, name: str, namespace: str = "") -> Raw:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def proxy_of(pod: Raw, finalizers: list[str]) -> Raw:
    """Return the proxy pod of Admiralty's webhook (section 3): manifest in YAML, every cached target's finalizer."""
    metadata, spec = pod["metadata"], pod["spec"]
    manifest = {"apiVersion": "v1", "kind": "Pod", "status": {}, **pod}
    manifest["metadata"] = {"creationTimestamp": None, **metadata}
    unconstrained = {key: value for key, value in spec.items() if key not in ("affinity", "topologySpreadConstraints")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "labels": {**metadata.get("labels", {}), P + "has-finalizer": "true"},
            "annotations": {**metadata.get("annotations", {}), MANIFEST: yaml.safe_dump(manifest, sort_keys=True)},
            "finalizers": finalizers,
        },
        "spec": {
            **unconstrained,
            "nodeSelector": {PROVIDER: "admiralty"},
            "tolerations": [
                {"key": PROVIDER, "value": "admiralty"},
                {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
            ],
            "schedulerName": PROXY,
            "terminationGracePeriodSeconds": 0,
        },
    }


def chaperon_of(proxy: Raw, cluster_name: str, *, reserve: bool) -> Raw:
    """Return the PodChaperon of Admiralty's proxy scheduler for a proxy pod (section 4.1, appendix A)."""
    metadata = proxy["metadata"]
    source: Raw = yaml.safe_load(metadata["annotations"][MANIFEST])
    annotations = source["metadata"].get("annotations") or {}
    labels = source["metadata"].get("labels") or {}
    spec = {key: value for key, value in source["spec"].items() if key != "priority"}
    if reserve:
        spec["schedulerName"] = CANDIDATE
    return {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": {
                **{P + key.rpartition("/")[2]: value for key, value in labels.items()},
                PARENT_UID: metadata["uid"],
                CLUSTER_NAME: cluster_name,
            },
            "annotations": {
                **{key: value for key, value in annotations.items() if not key.startswith(P)},
                PARENT_NAMESPACE: metadata["namespace"],
                PARENT_NAME: metadata["name"],
            },
        },
        "spec": spec,
    }


async def bind(client: Client, pod: Raw, node: str) -> None:
    """Bind a pod to a node, as schedulers do."""
    metadata = pod["metadata"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = PODS.path(metadata["namespace"], metadata["name"], "binding")
    await client.session.request("POST", path, body=json.dumps(binding).encode())


def condition(obj: Raw, kind: str) -> Raw:
    """Return a condition of an object; {} if it has none of this type."""
    conditions: list[Raw] = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def annotation(key: str, value: str | None) -> Raw:
    """Return a merge patch of one annotation."""
    return {"metadata": {"annotations": {key: value}}}


def foreign(obj: Raw) -> dict[str, str]:
    """Return the annotations that Admiralty counts as foreign."""
    annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if not key.startswith(P)}


def own(obj: Raw) -> dict[str, str]:
    """Return the annotations that Admiralty counts as its own."""
    annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key.startswith(P)}
