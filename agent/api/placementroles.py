"""Grants of the agent for the kinds of Open Cluster Management in its own cluster: a part of its table.

Each feature is a value of the chart: `agent.placement` selects the evaluator of Placements and the writer of
scores. `agent.p2code` enables Placements for the bundles of P2CODE's applications, and their distribution as
ManifestWorks. `agent.ac3Networks` enables ServiceLinks for AC3's networks. `klusterlet` makes the cluster a member of a
hub.
"""

from agent.api.accounts import grants
from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    APPLIED_MANIFEST_WORKS,
    CRDS,
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    MULTI_CLUSTER_NETWORKS,
    NAMESPACES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    REPLICA_SETS,
    SCHEDULING_MANIFESTS,
    SERVICE_LINKS,
    STATEFUL_SETS,
)
from agent.api.roles import Grant

FOLLOW_PLACEMENTS = "pods follow Placements"
EVALUATE_PLACEMENTS = "evaluation of Placements in this cluster"
SERVE_PLACEMENTS = "ManagedClusters and their sets in this cluster"
PLACEMENT_SCORES = "scores for Placements"
P2CODE = "whole applications of P2CODE are placed"
P2CODE_WORKS = "whole applications of P2CODE are distributed as ManifestWorks"
AC3_NETWORKS = "ServiceLinks for AC3's networks"
KLUSTERLET = "ManifestWorks of a hub"

_WORKLOADS = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS, CRON_JOBS)

AGENT_GRANTS: tuple[Grant, ...] = (
    # The installer of this CRD evaluates Placements.
    *grants(CRDS, "get", FOLLOW_PLACEMENTS, names=(str(PLACEMENTS),)),
    *grants(PLACEMENTS, "list watch", FOLLOW_PLACEMENTS),
    *grants(PLACEMENT_DECISIONS, "list watch", FOLLOW_PLACEMENTS),
    *grants(MANAGED_CLUSTERS, "list watch", FOLLOW_PLACEMENTS),
    *grants(MANAGED_CLUSTER_SETS, "list watch", FOLLOW_PLACEMENTS),
    *grants(MANAGED_CLUSTER_SET_BINDINGS, "list watch", FOLLOW_PLACEMENTS),
    *grants(ADDON_PLACEMENT_SCORES, "list watch", FOLLOW_PLACEMENTS),
    *grants(PLACEMENTS, "patch", EVALUATE_PLACEMENTS, sub="status"),
    # In clusters that protect owner references (OpenShift): a decision blocks the deletion of its Placement.
    *grants(PLACEMENTS, "update", EVALUATE_PLACEMENTS, sub="finalizers"),
    *grants(PLACEMENT_DECISIONS, "create patch delete", EVALUATE_PLACEMENTS),
    *grants(PLACEMENT_DECISIONS, "patch", EVALUATE_PLACEMENTS, sub="status"),
    *grants(MANAGED_CLUSTERS, "create patch delete", SERVE_PLACEMENTS),
    *grants(MANAGED_CLUSTERS, "patch", SERVE_PLACEMENTS, sub="status"),
    *grants(MANAGED_CLUSTER_SETS, "create", SERVE_PLACEMENTS),
    *grants(MANAGED_CLUSTER_SETS, "patch", SERVE_PLACEMENTS, sub="status"),
    # The webhook checks this right when a user adds a cluster to a set.
    *grants(MANAGED_CLUSTER_SETS, "create", SERVE_PLACEMENTS, sub="join"),
    *grants(MANAGED_CLUSTER_SET_BINDINGS, "patch", SERVE_PLACEMENTS, sub="status"),
    *grants(NAMESPACES, "create", SERVE_PLACEMENTS),
    *grants(ADDON_PLACEMENT_SCORES, "create", PLACEMENT_SCORES),
    *grants(ADDON_PLACEMENT_SCORES, "patch", PLACEMENT_SCORES, sub="status"),
    *grants(SCHEDULING_MANIFESTS, "list watch patch", P2CODE),
    *grants(SCHEDULING_MANIFESTS, "patch", P2CODE, sub="status"),
    # In clusters that protect owner references (OpenShift): a Placement blocks the deletion of its owner.
    *grants(SCHEDULING_MANIFESTS, "update", P2CODE, sub="finalizers"),
    *grants(PLACEMENTS, "create patch delete", P2CODE),
    *(each for kind in _WORKLOADS for each in grants(kind, "list watch", P2CODE)),
    *grants(MANIFEST_WORKS, "list watch", P2CODE_WORKS),
    *grants(MULTI_CLUSTER_NETWORKS, "list watch patch", AC3_NETWORKS),
    *grants(MULTI_CLUSTER_NETWORKS, "patch", AC3_NETWORKS, sub="status"),
    *grants(SERVICE_LINKS, "patch", AC3_NETWORKS),
    *grants(DEPLOYMENTS, "list watch", AC3_NETWORKS),
    # Rights on the applied objects are those of an account of its own, by the chart's works.rights. The chart lets the
    # agent impersonate it, and executors.
    *grants(APPLIED_MANIFEST_WORKS, "get list watch create patch delete", KLUSTERLET),
    *grants(APPLIED_MANIFEST_WORKS, "patch", KLUSTERLET, sub="status"),
    *grants(CRDS, "list watch", KLUSTERLET),
)
