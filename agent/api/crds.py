"""The six custom resources as structural schemas (specs, section 1). `hack/crds` writes them into the chart.

Everything that Admiralty accepts and uses is accepted, but for Targets that say neither or both of `self` and
`kubeconfigSecret`: Admiralty skips those silently, here the API server refuses them.
"""

import copy
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
from agent.api.policy import POLICY

Schema = dict[str, Any]


def crds() -> list[dict[str, Any]]:
    """All CustomResourceDefinitions, sorted by name."""
    return [
        _crd(CLUSTER_SOURCES, "csrc", _source(_CLUSTER_SERVICE_ACCOUNT), _SOURCE_COLUMNS),
        _crd(CLUSTER_SUMMARIES, "mcsum", _summary(), [_AGE]),
        _crd(CLUSTER_TARGETS, "ctg", _target({"namespace": _NAMESPACE}), _TARGET_COLUMNS),
        _crd(CHAPERONS, "chap", _chaperon(), _CHAPERON_COLUMNS),
        _crd(SOURCES, "src", _source(_SERVICE_ACCOUNT), _SOURCE_COLUMNS),
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


def _object(description: str, properties: dict[str, Schema], **rest: Any) -> Schema:
    return {"type": "object", "description": description, "properties": properties, **rest}


def _root(description: str, properties: dict[str, Schema], **rest: Any) -> Schema:
    head: dict[str, Schema] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return _object(description, {**head, **properties}, **rest)


def _string(description: str, **rest: Any) -> Schema:
    return {"type": "string", "description": description, **rest}


QUANTITY: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    # As controller-gen writes it for `resource.Quantity`.
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "maxLength": 64,
}


def _amounts(description: str) -> Schema:
    return {"type": "object", "description": description, "additionalProperties": copy.deepcopy(QUANTITY)}


_NAMESPACE = _string("Namespace of the Secret.", minLength=1)


_SERVICE_ACCOUNT = {
    "serviceAccountName": _string(
        "Name of the ServiceAccount, in the namespace of the Source, that the source cluster uses. Created if missing."
    )
}
_CLUSTER_SERVICE_ACCOUNT = {
    "serviceAccount": _object(
        "ServiceAccount that the source cluster uses. Created if missing.",
        {
            "name": _string("Name of the ServiceAccount."),
            "namespace": _string("Namespace of the ServiceAccount."),
        },
    )
}

_CONDITION: Schema = _object(
    "One aspect of the state of the object.",
    {
        "type": _string("Which aspect.", maxLength=316),
        "status": _string("Whether it holds.", enum=["True", "False", "Unknown"]),
        "reason": _string("Why, as one word for programs.", maxLength=1024),
        "message": _string("Why, and what to do about it.", maxLength=32768),
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "Generation of the object that this was said about.",
        },
        "lastTransitionTime": _string("When the status last changed.", format="date-time"),
    },
    required=["type", "status", "reason", "message", "lastTransitionTime"],
)

_STATUS: Schema = _object(
    "What the controllers see.",
    {
        "conditions": {
            "type": "array",
            "description": "State of the object, one aspect each.",
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    },
)


_NAMES: Schema = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}

_TARGET_STATUS: Schema = _object(
    "What the controllers see.",
    {
        **_STATUS["properties"],
        "namespaces": {
            "type": "array",
            "description": "What the namespaces of elected pods have in the target; what cannot be read is absent.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": _object(
                "One namespace.",
                {
                    "name": _string("Name of the namespace."),
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
    secret = _object(
        "Secret with a kubeconfig of the target cluster.",
        {
            **secret_namespace,
            "name": _string("Name of the Secret.", minLength=1),
            "key": _string("Key of the kubeconfig in the Secret; by default `config`."),
            "context": _string("Context in the kubeconfig; by default its current context."),
        },
        required=[*secret_namespace, "name"],
    )
    spec = _object(
        "Which cluster is the target: exactly one of `self: true` and `kubeconfigSecret`.",
        {
            "self": {"type": "boolean", "description": "The target is this very cluster."},
            "kubeconfigSecret": secret,
            "excludedLabelsRegexp": _string(
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
            "limits": _amounts(
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
    return _root(
        "A cluster that can run pods of this one.", {"spec": spec, "status": _TARGET_STATUS}, required=["spec"]
    )


def _source(service_account: dict[str, Schema]) -> Schema:
    spec = _object(
        "Who may run pods here: a user, a ServiceAccount, or both.",
        {
            "userName": _string("Name by which this cluster knows the source cluster."),
            **service_account,
            "policy": POLICY,
        },
    )
    return _root("A cluster whose pods this one can run.", {"spec": spec, "status": _STATUS})


def _summary() -> Schema:
    return _root(
        "What a source may know of this cluster; there is one, `singleton`. Its labels are those that the nodes share.",
        {
            "capacity": _amounts("Sum of the nodes' capacity."),
            "allocatable": _amounts("Sum of what the nodes can allocate to pods."),
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
        return _object(description, known, **anything)

    return _root(
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
