"""Manifests of objects that users create."""

import json
from typing import Any

from agent.api.kinds import Kind
from agent.api.names import GROUP, PREFIX, PROXY_CONSTRAINTS, VERSION

Raw = dict[str, Any]

DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
REPLICASETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
STATEFULSETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSETS = Kind("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Kind("batch", "v1", "jobs", "Job")


ELECT = PREFIX + "elect"
REGION = "topology.kubernetes.io/region"


def pod_spec(**more: Any) -> Raw:
    """Return a pod spec with one container that has small requests."""
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}},
    }
    return {"containers": [container], "terminationGracePeriodSeconds": 5, **more}


def pod(name: str, *, elect: str | None = ELECT, annotations: Raw | None = None, **spec: Any) -> Raw:
    """Return a pod, elected unless `elect` is None."""
    marks = {**({elect: ""} if elect else {}), **(annotations or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": marks},
        "spec": pod_spec(**spec),
    }


def only_on(node: str) -> Raw:
    """Return affinity to a node's name. Only the target's own scheduler can decide it, not the source's
    filters."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def template(app: str, **spec: Any) -> Raw:
    """Return the pod template of elected pods."""
    return {"metadata": {"labels": {"app": app}, "annotations": {ELECT: ""}}, "spec": pod_spec(**spec)}


def deployment(name: str, replicas: int, **spec: Any) -> Raw:
    """Return a Deployment of elected pods."""
    return workload(DEPLOYMENTS, name, spec, replicas=replicas)


def spread_out(name: str, replicas: int) -> Raw:
    """Return a Deployment whose pods spread over all targets, even if one still has pods of other tests."""
    constraint = spread(name, REGION, "ScheduleAnyway")
    return deployment(name, replicas, topologySpreadConstraints=[constraint])


def in_every_target(name: str, replicas: int) -> Raw:
    """Return a Deployment with pods in every target, even if one responds slowly, as on a busy machine."""
    made = deployment(name, replicas)
    constraints = {"topologySpreadConstraints": [spread(name, REGION, "DoNotSchedule")]}
    made["spec"]["template"]["metadata"]["annotations"][PREFIX + PROXY_CONSTRAINTS] = json.dumps(constraints)
    return made


def spread(app: str, over: str, otherwise: str) -> Raw:
    """Return a topology spread constraint."""
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": 1, "topologyKey": over, "whenUnsatisfiable": otherwise, "labelSelector": selector}


def stateful_set(name: str, replicas: int) -> Raw:
    """Return a StatefulSet of elected pods."""
    return workload(STATEFULSETS, name, {}, replicas=replicas, serviceName=name, podManagementPolicy="Parallel")


def workload(kind: Kind, name: str, spec: Raw, **more: Any) -> Raw:
    """Return a workload of the API group `apps` with a pod template."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name, **spec), **more},
    }


def job(name: str, completions: int, **spec: Any) -> Raw:
    """Return a Job of elected pods."""
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.name,
        "metadata": {"name": name},
        "spec": {
            "completions": completions,
            "parallelism": completions,
            "template": template(name, restartPolicy="Never", **spec),
        },
    }


def ours(kind: str, name: str, namespace: str | None, spec: Raw) -> Raw:
    """Return an object of the multicluster API group, such as a Target or Source."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec}


def secret(name: str, namespace: str, config: str) -> Raw:
    """Return a Secret with a kubeconfig."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"config": config}}


def namespace(name: str, *, enabled: bool = False) -> Raw:
    """Return a namespace, with the label that allows electing its pods if `enabled`."""
    labels = {"multicluster-scheduler": "enabled"} if enabled else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def manual_node(name: str, region: str) -> Raw:
    """Return a node without a kubelet, not even a fake one: the test itself sets the status of its pods."""
    size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"e2e/node": "manual", REGION: region}},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Manual", "message": "for a test"}],
        },
    }
