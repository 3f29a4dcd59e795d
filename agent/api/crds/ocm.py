"""Group cluster.open-cluster-management.io, with the names, defaults and validations of Open Cluster Management.

Manifests for a hub are accepted unchanged, and the other way round. There are no additional validations,
either: a controller reports problems in a condition. A label distinguishes each definition from one that a
hub's operator has installed.
"""

from typing import Any

from agent.api.crds.definition import AGE, column, crd, ours
from agent.api.crds.placement import EFFECTS, KEY, PLACEMENT_COLUMNS, conditions, label_selector, placement, status_of
from agent.api.crds.schema import Schema, amounts, fields, items, keyed, resource, text, whole
from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from agent.api.names.ocm import CONDITION_AVAILABLE, LABEL_CLUSTER_SET


def crds() -> list[dict[str, Any]]:
    """Return the CRDs of ManagedClusters, their sets and bindings, Placements, their decisions, and scores."""
    found = [
        crd(ADDON_PLACEMENT_SCORES, (), _scores(), []),
        crd(MANAGED_CLUSTERS, ("mcl", "mcls"), _managed_cluster(), _CLUSTER_COLUMNS),
        crd(MANAGED_CLUSTER_SETS, ("mclset", "mclsets"), _set(), _SET_COLUMNS),
        crd(MANAGED_CLUSTER_SET_BINDINGS, ("mclsetbinding", "mclsetbindings"), _binding(), []),
        crd(PLACEMENTS, (), placement(), PLACEMENT_COLUMNS),
        crd(PLACEMENT_DECISIONS, (), _decision(), []),
    ]
    return ours(found)


_CLUSTER_COLUMNS = [
    column("Hub Accepted", ".spec.hubAcceptsClient", "Whether it may take part.", type="boolean"),
    column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url", "Where its API server is."),
    column("Joined", status_of("ManagedClusterJoined"), "Whether it takes part."),
    column("Available", status_of(CONDITION_AVAILABLE), "Whether it can be reached and is well."),
    AGE,
]
_SET_COLUMNS = [column("Empty", status_of("ClusterSetEmpty"), "Whether no cluster is in it."), AGE]


def _taint() -> Schema:
    return fields(
        "What keeps Placements that do not tolerate it away.",
        {
            "key": text("Its key.", **KEY),
            "value": text("Its value.", maxLength=1024),
            "effect": text(
                "NoSelect: not decided. PreferNoSelect: rather not. NoSelectIfNew: not decided anew.",
                enum=list(EFFECTS),
            ),
            "timeAdded": text("Since when it is there.", format="date-time", nullable=True),
        },
        required=["effect", "key"],
    )


def _managed_namespaces(*keys: str) -> Schema:
    """Return the field of namespaces that agents of Open Cluster Management use; Flotilla only stores it."""
    name = text("Name of the namespace.", maxLength=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    of_a_set = {"clusterSet": text("The set that asks for it."), **conditions("namespace", mergeable=True)}
    one = fields("One namespace.", {"name": name, **(of_a_set if "clusterSet" in keys else {})}, required=list(keys))
    return items("Namespaces of its clusters that are managed together.", one, **keyed(*keys))


def _managed_cluster() -> Schema:
    address = fields(
        "One address.",
        {
            "url": text("URL of the API server."),
            "caBundle": text("Certificates of its authority, PEM in base64; the system's if not set.", format="byte"),
        },
        required=["url"],
    )
    spec = fields(
        "What is wanted of the cluster.",
        {
            "hubAcceptsClient": {"type": "boolean", "description": "Whether it may take part."},
            "leaseDurationSeconds": whole("How often its agent gives a sign of life.", default=60),
            "managedClusterClientConfigs": items("Where its API server can be reached.", address),
            "taints": items("What keeps Placements away.", _taint()),
        },
    )
    claim = fields(
        "One claim.",
        {
            "name": text("Name of the claim.", minLength=1, maxLength=253),
            "value": text("Its value.", minLength=1, maxLength=1024),
        },
    )
    status = fields(
        "What is known of the cluster.",
        {
            "allocatable": amounts("Sum of what its nodes can allocate to pods.", most=None),
            "capacity": amounts("Sum of its nodes' capacity.", most=None),
            "clusterClaims": items("What it says of itself.", claim),
            **conditions("cluster", mergeable=True),
            "managedNamespaces": _managed_namespaces("clusterSet", "name"),
            "version": fields("Its versions.", {"kubernetes": text("Version of Kubernetes.")}),
        },
    )
    return resource("A cluster that Placements can decide for.", {"spec": spec, "status": status})


def _set() -> Schema:
    def default() -> dict[str, Any]:
        return {"selectorType": "ExclusiveClusterSetLabel"}

    selector = fields(
        "Which clusters are in the set.",
        {
            "selectorType": text(
                f"ExclusiveClusterSetLabel: those whose label {LABEL_CLUSTER_SET} names the set. LabelSelector: those "
                "that the selector matches.",
                default="ExclusiveClusterSetLabel",
                enum=["ExclusiveClusterSetLabel", "LabelSelector"],
            ),
            "labelSelector": label_selector(),
        },
        default=default(),
        required=["selectorType"],
    )
    spec = fields(
        "What the set is.",
        {"clusterSelector": selector, "managedNamespaces": _managed_namespaces("name")},
        default={"clusterSelector": default()},
    )
    status = fields("What is known of the set.", conditions("set"))
    return resource("Clusters that belong together.", {"spec": spec, "status": status})


def _binding() -> Schema:
    spec = fields("What is bound.", {"clusterSet": text("Name of the set, and of the binding.", minLength=1)})
    status = fields("What is known of the binding.", conditions("binding"))
    return resource(
        "Placements of its namespace may decide for the clusters of a set. Whoever makes one needs the right to create "
        "managedclustersets/bind.",
        {"spec": spec, "status": status},
    )


def _decision() -> Schema:
    one = fields(
        "One decided cluster.",
        {
            "clusterName": text("Name of the ManagedCluster."),
            "reason": text("Why: the scores that it had."),
            "score": whole("Its score, all in all.", "int64"),
        },
        required=["clusterName", "reason"],
    )
    status = fields(
        "What has been decided.", {"decisions": items("Clusters, 100 at most.", one)}, required=["decisions"]
    )
    return resource("Clusters that a Placement is decided for, all or some of them.", {"status": status})


def _scores() -> Schema:
    one = fields(
        "One score.",
        {"name": text("Name of the score."), "value": whole("Its value.", minimum=-100, maximum=100)},
        required=["name", "value"],
    )
    status = fields(
        "The scores.",
        {
            **conditions("scores", mergeable=True),
            "scores": items("Scores by name.", one, **keyed("name")),
            "validUntil": text("Until when they count; for ever if it is not set.", format="date-time"),
        },
    )
    return resource("Scores of the cluster that its namespace is named like.", {"status": status})
