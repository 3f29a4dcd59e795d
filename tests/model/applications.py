"""P2CodeSchedulingManifests with their manifests, for tests."""

from typing import Any

from agent.model.p2code.bundles import Bundling
from agent.model.p2code.check import Application, draft

Raw = dict[str, Any]

SET = "p2code.target.managedClusterSet=p2code"
VERSIONS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ControllerRevision": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Ingress": "networking.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "Route": "route.openshift.io/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
}
CLUSTER_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding")


def manifest(kind: str, name: str = "x", namespace: str = "demo", labels: Raw | None = None, **fields: Any) -> Raw:
    """Return an object of a kind, without a namespace if the kind is cluster-scoped."""
    metadata: Raw = {"name": name} if kind in CLUSTER_WIDE else {"name": name, "namespace": namespace}
    metadata |= {"labels": labels} if labels else {}
    return {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def workload(
    name: str = "web", kind: str = "Deployment", namespace: str = "demo", spec: Raw | None = None, **more: Any
) -> Raw:
    """Return a workload whose pods have the label app; `spec` extends the spec of its pods, `more` its own."""
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "i"}], **(spec or {})},
    }
    found = manifest(kind, name, namespace)
    if kind == "Pod":
        return {**found, "metadata": {**found["metadata"], "labels": {"app": name}}, "spec": template["spec"]}
    own = {"template": template, **more}
    return {**found, "spec": {"jobTemplate": {"spec": own}} if kind == "CronJob" else own}


def container(**fields: Any) -> Raw:
    """Return a part of a pod's spec with its only container."""
    return {"containers": [{"name": "main", "image": "i", **fields}]}


def spec_of(*manifests: Raw, common: tuple[str, ...] = (SET,), own: list[Raw] | None = None) -> Raw:
    """Return the spec of a P2CodeSchedulingManifest."""
    found: Raw = {"globalAnnotations": list(common), "manifests": list(manifests)}
    return found | ({"workloadAnnotations": own} if own is not None else {})


def bundled(*manifests: Raw, **rest: Any) -> Bundling:
    """Return the bundles of these manifests, one per workload unless `own` states otherwise."""
    found = draft(spec_of(*manifests, **{"own": [{"name": _first(manifests)}], **rest}), "shop", "global").application
    assert isinstance(found, Application)
    return found.bundling


def _first(manifests: tuple[Raw, ...]) -> str:
    kinds = ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob")
    return next(str(each["metadata"]["name"]) for each in manifests if each["kind"] in kinds)
