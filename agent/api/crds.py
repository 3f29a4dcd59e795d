"""The six custom resources as structural schemas (wire contract, 1). `hack/crds` writes them into the chart.

Everything that Admiralty accepts and uses is accepted, but for two things. Targets that say neither or both of `self`
and `kubeconfigSecret` are refused, which Admiralty skips silently; new Sources do not name the account `default`.
"""

from typing import Any

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SOURCES,
    CLUSTER_SUMMARIES,
    CLUSTER_TARGETS,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.api.names import ANNOTATION_IS_ALLOWED, ANNOTATION_IS_RESERVED
from agent.api.schema import STATUS, Schema, amounts, fields, resource, text
from agent.api.sourceschema import CLUSTER_SERVICE_ACCOUNT, SERVICE_ACCOUNT, source


def crds() -> list[dict[str, Any]]:
    """All CustomResourceDefinitions, sorted by name."""
    return [
        _crd(CLUSTER_SOURCES, "csrc", source(CLUSTER_SERVICE_ACCOUNT), _SOURCE_COLUMNS),
        _crd(CLUSTER_SUMMARIES, "mcsum", _summary(), [_AGE]),
        _crd(CLUSTER_TARGETS, "ctg", _target({"namespace": _NAMESPACE}), _TARGET_COLUMNS),
        _crd(CHAPERONS, "chap", _chaperon(), _CHAPERON_COLUMNS),
        _crd(SOURCES, "src", source(SERVICE_ACCOUNT), _SOURCE_COLUMNS),
        _crd(TARGETS, "tg", _target({}), _TARGET_COLUMNS),
    ]


def _crd(kind: Kind, short_name: str, schema: Schema, columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(kind)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [short_name],
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


_NAMESPACE = text("Namespace of the Secret.", minLength=1)


_NAMES: Schema = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}

_TARGET_STATUS: Schema = fields(
    "What the controllers see.",
    {
        **STATUS["properties"],
        "clusterUID": text("UID of the namespace kube-system of the cluster that pods were sent to, once it is known."),
        "follow": {
            **_NAMES,
            "description": "Kinds that may be brought there with the pods that need them, as its Source allows it.",
        },
        "namespaces": {
            "type": "array",
            "description": "What the namespaces of elected pods have in the target; what cannot be read is absent.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": fields(
                "One namespace.",
                {
                    "name": text("Name of the namespace."),
                    "serviceAccounts": {**_NAMES, "description": "Names of its ServiceAccounts but `default`."},
                    "persistentVolumeClaims": {**_NAMES, "description": "Names of its PersistentVolumeClaims."},
                },
                required=["name"],
            ),
        },
    },
)


def _target(secret_namespace: dict[str, Schema]) -> Schema:
    """Of a Target, whose Secret is in its own namespace, or of a ClusterTarget, whose Secret can be in any."""
    secret = fields(
        "Secret with a kubeconfig of the target cluster.",
        {
            **secret_namespace,
            "name": text("Name of the Secret.", minLength=1),
            "key": text("Key of the kubeconfig in the Secret; by default `config`."),
            "context": text("Context in the kubeconfig; by default its current context."),
        },
        required=[*secret_namespace, "name"],
    )
    spec = fields(
        "Which cluster is the target: exactly one of `self: true` and `kubeconfigSecret`.",
        {
            "self": {"type": "boolean", "description": "The target is this very cluster."},
            "kubeconfigSecret": secret,
            "excludedLabelsRegexp": text(
                "Labels of the target's nodes in whose key=value this regular expression is found are left off the "
                "virtual node."
            ),
            "podCIDRs": {
                "type": "array",
                "description": "Ranges in which addresses of pods there are. Addresses outside, of pods and endpoints, "
                "are left out here. Any address if it is not set.",
                "maxItems": 100,
                "items": {"type": "string", "minLength": 1, "maxLength": 49},
            },
            "limits": amounts(
                "The most that pods of this cluster may request there together: cpu, memory, pods or any resource."
            ),
        },
    )
    spec["x-kubernetes-validations"] = [
        {
            "rule": "has(self.kubeconfigSecret) || (has(self.self) && self.self)",
            "message": "say which cluster is the target: set either self: true (this cluster) or kubeconfigSecret",
        },
        {
            "rule": "!(has(self.kubeconfigSecret) && has(self.self) && self.self)",
            "message": "self: true and kubeconfigSecret exclude each other: remove one of them",
        },
    ]
    return resource(
        "A cluster that can run pods of this one.", {"spec": spec, "status": _TARGET_STATUS}, required=["spec"]
    )


def _summary() -> Schema:
    return resource(
        "What a source may know of this cluster; there is one, `singleton`. Its labels are those that the nodes share.",
        {
            "capacity": amounts("Sum of the nodes' capacity."),
            "allocatable": amounts("Sum of what the nodes can allocate to pods."),
        },
    )


def _texts(*names: str) -> dict[str, Schema]:
    return {name: {"type": "string", "nullable": True} for name in names}


def _lists(*names: str) -> dict[str, Schema]:
    item = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {name: {"type": "array", "nullable": True, "items": {**item}} for name in names}


_POD_SPEC: dict[str, Schema] = {
    **_texts("nodeName", "schedulerName", "restartPolicy", "priorityClassName", "serviceAccountName", "hostname"),
    "priority": {"type": "integer", "format": "int32", "nullable": True},
    **_lists("containers", "initContainers", "ephemeralContainers", "volumes", "tolerations", "schedulingGates"),
}
_POD_STATUS: dict[str, Schema] = {
    **_texts("phase", "reason", "message", "podIP", "hostIP"),
    **_lists("conditions", "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses", "podIPs"),
}


def _chaperon() -> Schema:
    """What we look at has the types of Kubernetes; the rest of a pod, which grows by versions, may be anything."""

    def mostly_free(description: str, known: dict[str, Schema]) -> Schema:
        # One field to those who track owners of fields: to track each field inside makes a write half as dear again.
        anything = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"}
        return fields(description, known, **anything)

    return resource(
        "A pod of a source cluster that this cluster is to run.",
        {"spec": mostly_free("Spec of the pod.", _POD_SPEC), "status": mostly_free("Status of the pod.", _POD_STATUS)},
    )


def _column(name: str, path: str, description: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "jsonPath": path, "description": description, **rest}


def _condition_column(name: str, field: str, description: str, **rest: Any) -> dict[str, Any]:
    return _column(name, f'.status.conditions[?(@.type=="Ready")].{field}', description, **rest)


def _annotation_column(name: str, key: str, description: str) -> dict[str, Any]:
    return _column(name, ".metadata.annotations." + key.replace(".", r"\."), description)


_AGE: dict[str, Any] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

_READY = (
    _condition_column("Ready", "status", "Whether it works."),
    _condition_column("Reason", "reason", "Why it works or not."),
)
_MESSAGE = _condition_column("Message", "message", "What to do about it.", priority=1)

_TARGET_COLUMNS = [
    *_READY,
    _column("Secret", ".spec.kubeconfigSecret.name", "Secret with the kubeconfig; empty for this very cluster."),
    _AGE,
    _MESSAGE,
]
_SOURCE_COLUMNS = [*_READY, _AGE, _MESSAGE]
_CHAPERON_COLUMNS = [
    _annotation_column("reserved", ANNOTATION_IS_RESERVED, "Whether a node is reserved for the pod."),
    _annotation_column("allowed", ANNOTATION_IS_ALLOWED, "Whether the pod may be bound."),
]
