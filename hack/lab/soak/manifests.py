"""Manifests of a plan's workloads. Pure."""

from typing import Any

from agent.api.kinds import CONFIGMAPS, DEPLOYMENTS, SECRETS, SERVICES, Kind
from agent.api.names import ELECT, PREFIX
from hack.lab.sandbox.manifests import NAMESPACE
from hack.lab.soak.plan import Sort, Step

Raw = dict[str, Any]

STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
JOBS = Kind("batch", "v1", "jobs", "Job")
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
KINDS: dict[Sort, Kind] = {
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFUL_SETS,
    "Job": JOBS,
    "Flop": JOBS,
    "Misfit": DEPLOYMENTS,
}

APP = "app"
"""Label of every pod; its value is the workload's name."""
STORAGE = "soak"
ROLLED = "soak/rolled"
"""Annotation that rolls a pod template."""
RUNS_FOR = "sandbox.flotilla/runs-for"
FAILS = "sandbox.flotilla/fails"
ENDS_AFTER = "sandbox.flotilla/ends-after"
_MUCH_CPU = "1000"


def objects(step: Step) -> list[tuple[Kind, Raw]]:
    """Return the objects of a step, in order of creation; delete them in reverse order."""
    found: list[tuple[Kind, Raw]] = []
    if step.files:
        found.append((CONFIGMAPS, {"metadata": _metadata(step.name), "data": {"name": step.name}}))
        found.append((SECRETS, {"metadata": _metadata(step.name), "stringData": {"name": step.name}}))
    if step.service:
        spec = {"selector": {APP: step.name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
        found.append((SERVICES, {"metadata": _metadata(step.name), "spec": spec}))
    found.append((KINDS[step.sort], workload(step)))
    return found


def workload(step: Step) -> Raw:
    """Return the manifest of the workload."""
    kind = KINDS[step.sort]
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": _metadata(step.name)}
    if kind is JOBS:
        tries = 0 if step.sort == "Flop" else 100
        counts = {"completions": step.pods, "parallelism": step.pods, "backoffLimit": tries}
        return {**head, "spec": {**counts, "template": template(step, restartPolicy="Never")}}
    spec: Raw = {
        "replicas": step.pods,
        "selector": {"matchLabels": {APP: step.name}},
        "template": template(step),
    }
    if step.sort == "StatefulSet":
        spec |= {"serviceName": step.name, "podManagementPolicy": "Parallel"}
    if step.claims:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": STORAGE,
        }
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        spec["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    return {**head, "spec": spec}


def template(step: Step, **spec: Any) -> Raw:
    """Return a template of elected pods."""
    annotations = {PREFIX + ELECT: ""}
    if step.seconds:
        annotations[RUNS_FOR if KINDS[step.sort] is JOBS else ENDS_AFTER] = f"{step.seconds:g}s"
    if step.sort == "Flop":
        annotations[FAILS] = "true"
    container: Raw = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": {"cpu": _MUCH_CPU if step.sort == "Misfit" else "10m"}},
    }
    if step.files:
        container["envFrom"] = [{"configMapRef": {"name": step.name}}]
        container["volumeMounts"] = [{"name": "own", "mountPath": "/own"}]
        spec["volumes"] = [{"name": "own", "secret": {"secretName": step.name}}]
    if step.claims:
        container.setdefault("volumeMounts", []).append({"name": "data", "mountPath": "/data"})
    return {
        "metadata": {"labels": {APP: step.name}, "annotations": annotations},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 10, **spec},
    }


def storage_class() -> Raw:
    """Return the targets' storage class. A claim gets its volume after its pod has a node. The source has none."""
    mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    return {"metadata": {"name": STORAGE}, **mode}


def volume(number: int) -> Raw:
    """Return a volume of that class."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": STORAGE,
        "hostPath": {"path": "/none"},
    }
    return {"metadata": {"name": f"{STORAGE}-{number}"}, "spec": spec}


def _metadata(name: str) -> Raw:
    return {"name": name, "namespace": NAMESPACE}
