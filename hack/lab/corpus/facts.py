"""Facts of an object that a comparison uses: its manifest and its state, without values that always differ. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from agent.api import names
from agent.model.service import users_selector
from hack.lab.corpus.rollouts import waiting

Raw = dict[str, Any]

_OURS = (names.PREFIX, names.SHORT_PREFIX, names.ANNOTATION_CILIUM, names.ANNOTATION_CILIUM_V1)
_OF_CLUSTERS = (
    "autoscaling.alpha.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "endpoints.kubernetes.io/",
    "kubectl.kubernetes.io/",
    "kubernetes.io/service-account.uid",
    "kwok.x-k8s.io/",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/storage-provisioner",
)
"""Annotations for the internal state of controllers and kubectl."""
_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_WRITTEN_BY_CLUSTERS = ("clusterIP", "clusterIPs", "healthCheckNodePort", "nodeName", "volumeName")
_OF_SCHEDULING = (
    "affinity",
    "hostname",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
"""Fields in which a proxy pod differs from its manifest; the delegate gets the original values."""
_COUNTS = {
    "Deployment": ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"),
    "HorizontalPodAutoscaler": ("currentReplicas", "desiredReplicas"),
    "Job": ("active", "succeeded", "failed", "completedIndexes", "failedIndexes"),
    "PersistentVolumeClaim": ("accessModes", "capacity"),
    "PodDisruptionBudget": ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"),
    "ReplicaSet": ("replicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("replicas", "readyReplicas", "availableReplicas"),
    "ResourceQuota": ("hard", "used"),
    "StatefulSet": ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"),
}
"""Compared fields of the status, in addition to phase and conditions. Omits DaemonSets: virtual nodes count, too."""
_WITHOUT_CONDITIONS = frozenset(("PodReadyToStartContainers",))
_METADATA = frozenset(("apiVersion", "kind", "metadata", "status"))


def facts(obj: Raw) -> Raw:
    """Return the facts in which an object has to agree with its counterpart."""
    content = {field: value for field, value in obj.items() if field not in _METADATA}
    if content.get("spec") is not None:
        content["spec"] = _spec(obj)
    if obj["kind"] == "Secret" and obj.get("type") == "kubernetes.io/service-account-token":
        content.pop("data", None)
    if obj["kind"] in ("Namespace", "ServiceAccount"):
        content.pop("secrets", None)
        content.pop("spec", None)
    found = {
        "labels": _labels(obj),
        "annotations": _annotations(obj),
        "status": _status(obj),
        "rollout": waiting(obj),
        **content,
    }
    return {field: value for field, value in found.items() if value not in (None, "", {}, [])}


def _labels(obj: Raw) -> Raw:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    if obj["kind"] == "Namespace":
        return {}
    left_out = {*_UIDS, *(names.LABELS_OF_NODE if obj["kind"] == "Pod" else ())}
    return {key: value for key, value in labels.items() if key not in left_out and not key.startswith(_OURS)}


def _annotations(obj: Raw) -> Raw:
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if not key.startswith((*_OURS, *_OF_CLUSTERS))}


def _spec(obj: Raw) -> Any:
    spec = obj["spec"]
    if not isinstance(spec, dict):
        return spec
    rule = _SPECS.get(obj["kind"])
    kept = {field: value for field, value in spec.items() if field not in _WRITTEN_BY_CLUSTERS}
    return rule(obj, kept) if rule else kept


def _service(obj: Raw, spec: Raw) -> Raw:
    spec["ports"] = [
        {field: value for field, value in port.items() if field != "nodePort"} for port in spec.get("ports") or ()
    ]
    if spec.get("selector"):
        spec["selector"] = dict(users_selector(obj) or spec["selector"])
    return spec


def _pod(obj: Raw, spec: Raw) -> Raw:
    kept = {field: value for field, value in spec.items() if field not in _OF_SCHEDULING}
    tokens = {each["name"] for each in spec.get("volumes") or () if each["name"].startswith("kube-api-access-")}
    volumes = (each for each in spec.get("volumes") or () if each["name"] not in tokens)
    # The StatefulSet controller adds the volumes of claims in random order.
    kept["volumes"] = sorted(volumes, key=lambda each: str(each["name"]))
    for field in ("containers", "initContainers"):
        kept[field] = [_container(each, tokens) for each in spec.get(field) or ()]
    return kept


def _container(container: Raw, tokens: set[str]) -> Raw:
    mounts = [each for each in container.get("volumeMounts") or () if each["name"] not in tokens]
    return {**container, "volumeMounts": mounts}


def _volume(obj: Raw, spec: Raw) -> Raw:
    return {field: value for field, value in spec.items() if field != "claimRef"}


def _job(obj: Raw, spec: Raw) -> Raw:
    """Remove the Job's UID, which is a label in selector and template."""
    kept = {field: value for field, value in spec.items() if field != "selector"}
    template = dict(spec.get("template") or {})
    labels = (template.get("metadata") or {}).get("labels") or {}
    template["metadata"] = {
        **(template.get("metadata") or {}),
        "labels": {key: value for key, value in labels.items() if key not in _UIDS},
    }
    return {**kept, "template": template}


_SPECS: dict[str, Callable[[Raw, Raw], Raw]] = {
    "Service": _service,
    "Pod": _pod,
    "PersistentVolume": _volume,
    "Job": _job,
}


def _status(obj: Raw) -> Raw:
    status = obj.get("status") or {}
    found: Raw = {field: status[field] for field in ("phase", *_COUNTS.get(obj["kind"], ())) if status.get(field)}
    conditions = {
        each["type"]: each["status"]
        for each in status.get("conditions") or ()
        if "type" in each and each["type"] not in _WITHOUT_CONDITIONS and not each["type"].startswith(_OURS)
    }
    if conditions:
        found["conditions"] = conditions
    for field in ("initContainerStatuses", "containerStatuses"):
        if obj["kind"] == "Pod" and status.get(field):
            found[field] = {
                each["name"]: {"ready": each.get("ready"), "state": next(iter(each.get("state") or {}), "")}
                for each in status[field]
            }
    return found
