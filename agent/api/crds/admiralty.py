"""Group multicluster.admiralty.io, as structural schemas (wire contract, 1).

The schemas accept everything that Admiralty accepts and uses, with two exceptions. They refuse Targets that set
neither or both of `self` and `kubeconfigSecret`, which Admiralty skips silently. New Sources may not name the
account `default`.
"""

from typing import Any

from agent.api.crds.definition import AGE, MESSAGE, READY, annotation_column, column, crd
from agent.api.crds.schema import STATUS, Schema, amounts, fields, keyed, resource, text
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SOURCES,
    CLUSTER_SUMMARIES,
    CLUSTER_TARGETS,
    SOURCES,
    TARGETS,
)
from agent.api.names import ANNOTATION_IS_ALLOWED, ANNOTATION_IS_RESERVED
from agent.api.roles import OPTIONAL_FEATURES


def crds() -> list[dict[str, Any]]:
    """Return the CRDs of Targets, Sources, ClusterSummaries and PodChaperons."""
    return [
        crd(CLUSTER_SOURCES, ["csrc"], _source(_CLUSTER_SERVICE_ACCOUNT), _SOURCE_COLUMNS),
        crd(CLUSTER_SUMMARIES, ["mcsum"], _summary(), [AGE]),
        crd(CLUSTER_TARGETS, ["ctg"], _target({"namespace": _NAMESPACE}), _TARGET_COLUMNS),
        crd(CHAPERONS, ["chap"], _chaperon(), _CHAPERON_COLUMNS),
        crd(SOURCES, ["src"], _source(_SERVICE_ACCOUNT), _SOURCE_COLUMNS),
        crd(TARGETS, ["tg"], _target({}), _TARGET_COLUMNS),
    ]


_NAMESPACE = text("Namespace of the Secret.", minLength=1)


_NAMES: Schema = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}

_TARGET_STATUS: Schema = fields(
    "What the controllers see.",
    {
        **STATUS["properties"],
        "clusterUID": text("UID of the namespace kube-system of the cluster that pods were sent to, once it is known."),
        "managedCluster": text(
            "Name of the ManagedCluster (Open Cluster Management) of this cluster, where Placements are in use."
        ),
        "follow": {
            **_NAMES,
            "description": "Kinds that may be brought there with the pods that need them, as its Source allows it.",
        },
        "missingSchedulers": {
            **_NAMES,
            "description": "Schedulers that pods name and that have not looked at any of them in the target.",
        },
        "namespaces": {
            "type": "array",
            "description": "What the namespaces of elected pods have in the target; what cannot be read is absent.",
            **keyed("name"),
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


def _secret(namespace: dict[str, Schema]) -> Schema:
    return fields(
        "Secret with a kubeconfig of the target cluster.",
        {
            **namespace,
            "name": text("Name of the Secret.", minLength=1),
            "key": text("Key of the kubeconfig in the Secret; by default `config`."),
            "context": text("Context in the kubeconfig; by default its current context."),
        },
        required=[*namespace, "name"],
    )


_ONE_CLUSTER = [
    {
        "rule": "has(self.kubeconfigSecret) || (has(self.self) && self.self)",
        "message": "say which cluster is the target: set either self: true (this cluster) or kubeconfigSecret",
    },
    {
        "rule": "!(has(self.kubeconfigSecret) && has(self.self) && self.self)",
        "message": "self: true and kubeconfigSecret exclude each other: remove one of them",
    },
]


def _target(secret_namespace: dict[str, Schema]) -> Schema:
    """Return the schema of a Target, whose Secret is in its own namespace, or of a ClusterTarget, whose Secret
    may be in any.
    """
    spec = fields(
        "Which cluster is the target: exactly one of `self: true` and `kubeconfigSecret`.",
        {
            "self": {"type": "boolean", "description": "The target is this very cluster."},
            "kubeconfigSecret": _secret(secret_namespace),
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
        **{"x-kubernetes-validations": _ONE_CLUSTER},
    )
    return resource(
        "A cluster that can run pods of this one.", {"spec": spec, "status": _TARGET_STATUS}, required=["spec"]
    )


def _summary() -> Schema:
    return resource(
        "Facts about this cluster for its sources, always named `singleton`. Its labels have one value on all nodes.",
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
    """Return the schema of a PodChaperon: fields that Flotilla reads have the types of Kubernetes, others are free.

    The rest of a pod's fields grows with versions of Kubernetes.
    """

    def mostly_free(description: str, known: dict[str, Schema]) -> Schema:
        # Atomic, so that field owners are tracked for one field: tracking each inner field makes writes half as
        # expensive again.
        anything = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"}
        return fields(description, known, **anything)

    return resource(
        "A pod of a source cluster that this cluster is to run.",
        {"spec": mostly_free("Spec of the pod.", _POD_SPEC), "status": mostly_free("Status of the pod.", _POD_STATUS)},
    )


_NOT_DEFAULT = {
    "x-kubernetes-validations": [
        {
            "rule": "self != 'default'",
            "message": "every pod that names no account runs as default, and would have the source's rights: name "
            "another account, which is created if it is missing",
        }
    ]
}
_NO_DEFAULT_USER = {
    "x-kubernetes-validations": [
        {
            "rule": "!self.startsWith('system:serviceaccount:') || !self.endsWith(':default')",
            "message": "every pod that names no account runs as default, and would have the source's rights: name "
            "another user",
        }
    ]
}
_SERVICE_ACCOUNT = {
    "serviceAccountName": text(
        "Name of the ServiceAccount, in the namespace of the Source, that the source cluster uses. Created if missing.",
        **_NOT_DEFAULT,
    )
}
_CLUSTER_SERVICE_ACCOUNT = {
    "serviceAccount": fields(
        "ServiceAccount that the source cluster uses. Created if missing.",
        {
            "name": text("Name of the ServiceAccount.", **_NOT_DEFAULT),
            "namespace": text("Namespace of the ServiceAccount."),
        },
    )
}


def _source(service_account: dict[str, Schema]) -> Schema:
    """Return the schema of a Source or ClusterSource, which differ in the field of the service account."""
    spec = fields(
        "Who may run pods here: a user, a ServiceAccount, or both.",
        {
            "userName": text("Name by which this cluster knows the source cluster.", **_NO_DEFAULT_USER),
            **service_account,
            "allow": {
                "type": "array",
                "description": "Features in addition to PodChaperons, ConfigMaps, Secrets, Services and Ingresses: "
                "`services` (their endpoints in other clusters), `volumes` (claims that follow pods), `accounts` "
                "(service accounts that follow pods), `fence` (Leases: if they are not renewed, pods that must not run "
                "twice are stopped), and networks. If it is not set, only `services`, `volumes` and `accounts`.",
                "items": {"type": "string", "enum": list(OPTIONAL_FEATURES)},
                "maxItems": len(OPTIONAL_FEATURES),
                "x-kubernetes-list-type": "set",
            },
            "policy": POLICY,
        },
    )
    return resource("A cluster whose pods this one can run.", {"spec": spec, "status": STATUS})


_TARGET_COLUMNS = [
    *READY,
    column("Secret", ".spec.kubeconfigSecret.name", "Secret with the kubeconfig; empty for this very cluster."),
    AGE,
    MESSAGE,
]
_SOURCE_COLUMNS = [*READY, AGE, MESSAGE]
_CHAPERON_COLUMNS = [
    annotation_column("reserved", ANNOTATION_IS_RESERVED, "Whether a node is reserved for the pod."),
    annotation_column("allowed", ANNOTATION_IS_ALLOWED, "Whether the pod may be bound."),
]

_ITEMS, _CHARACTERS = 100, 253


def _may(description: str) -> Schema:
    return {"type": "boolean", "description": f"Whether pods may {description}; true if it is not set."}


def _list(description: str) -> Schema:
    items = {"type": "string", "minLength": 1, "maxLength": _CHARACTERS}
    return {"type": "array", "description": description, "maxItems": _ITEMS, "items": items}


POLICY: Schema = {
    "type": "object",
    "description": "What its pods may contain, beyond what this cluster's own admission says. A field that is not set "
    "restricts nothing. A PodChaperon has to satisfy the policies of all Sources of its namespace and of all "
    "ClusterSources.",
    "properties": {
        "hostNamespaces": _may("set hostNetwork, hostPID or hostIPC"),
        "hostPaths": _may("have hostPath volumes"),
        "privileged": _may("have containers that are privileged, or hostProcess ones of Windows"),
        "nodeNames": _may("choose a node by its name: by nodeName, or by a selector or affinity for its name"),
        "priorityClassNames": _list(
            "Priority classes that pods may name; one that names none is allowed. Any if it is not set."
        ),
        "serviceAccountNames": _list(
            "Service accounts that pods may use; one that names none uses `default`. Any if it is not set."
        ),
        "imagePrefixes": _list(
            "What names of images begin with: a registry and whole parts of the path, as registry.example:5000/team or "
            "registry.example/library. An image that names no registry is not allowed then. Any if it is not set."
        ),
    },
}
