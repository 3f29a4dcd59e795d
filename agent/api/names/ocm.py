"""Labels, annotations, taints and claims of Open Cluster Management, and Flotilla's names for its objects."""

import hashlib

from agent.api.names.derived import LONG_LIMIT, SHORT_LIMIT, join
from agent.api.names.prefixes import SHORT_PREFIX

OCM_GROUP = "cluster.open-cluster-management.io"
WORK_GROUP = "work.open-cluster-management.io"

OURS = SHORT_PREFIX + "ours"
"""Label of CRDs of this group that Flotilla's chart installed: then Flotilla evaluates Placements."""

# PlacementDecisions
LABEL_PLACEMENT = OCM_GROUP + "/placement"
LABEL_GROUP_INDEX = OCM_GROUP + "/decision-group-index"
LABEL_GROUP_NAME = OCM_GROUP + "/decision-group-name"

# Placements
SCHEDULING_DISABLED = OCM_GROUP + "/experimental-scheduling-disable"
"""Annotation: `true` prevents evaluation by Open Cluster Management's own controller."""
EVALUATE = SHORT_PREFIX + "evaluate"
"""Annotation of a Placement on a hub: `true` in addition to that annotation lets Flotilla evaluate it."""
KEEP_DECIDED = SHORT_PREFIX + "keep-decided"
"""Annotation of a Placement: `true` keeps decided clusters as long as they are feasible."""
WHEN_UNPLACED = SHORT_PREFIX + "when-unplaced"
"""Annotation of a Placement: treatment of bound pods whose cluster is no longer decided; the default is `stay`."""
STAY, MOVE = "stay", "move"
WHEN_UNPLACED_CHOICES = (STAY, MOVE)

# ManagedClusters
LABEL_CLUSTER_SET = OCM_GROUP + "/clusterset"
DEFAULT_SET = "default"
GLOBAL_SET = "global"
LOCAL_CLUSTER = "local-cluster"
"""Name and label of the cluster that is its own target."""
LABEL_CLUSTER_NAME = "open-cluster-management.io/cluster-name"
"""Label of the namespace of a ManagedCluster: its name."""
LABEL_SPOKE_ONLY = "open-cluster-management.io/spoke-only"
"""Label of a ClusterClaim or ClusterProperty that is not published to the hub."""
CLAIM_ID = "id.k8s.io"
CLAIM_KUBE_VERSION = "kubeversion.open-cluster-management.io"
CLAIM_PLATFORM = "platform.open-cluster-management.io"
CLAIM_PRODUCT = "product.open-cluster-management.io"
CONDITION_AVAILABLE = "ManagedClusterConditionAvailable"
TAINT_UNAVAILABLE = OCM_GROUP + "/unavailable"
TAINT_UNREACHABLE = OCM_GROUP + "/unreachable"

# AddOnPlacementScores
USAGE_SCORES = "resource-usage-score"
"""Name of Flotilla's scores of measured usage."""

# Targets and virtual nodes
MANAGED_CLUSTER = SHORT_PREFIX + "managed-cluster"
"""Annotation of a Target or ClusterTarget: the name of its ManagedCluster. Label of the virtual node: the one found."""
CLAIMS = SHORT_PREFIX + "claims"
"""Annotation of a ClusterSummary: ClusterClaims and ClusterProperties by name, as JSON."""
USED = SHORT_PREFIX + "used"
"""Annotation of a ClusterSummary: total measured usage of its nodes, as JSON of quantities."""

# Pods and namespaces (suffixes: each is accepted under both prefixes)
PLACEMENT = "placement"
PLACEMENT_GROUP = "placement-group"


def decision_label(placement: str) -> str:
    """Return the label value by which PlacementDecisions name their Placement: its name, hashed if it is too long."""
    return join(SHORT_LIMIT, (placement,))


def decision_name(placement: str, number: int) -> str:
    """Return the name of the PlacementDecision with this number, from 1 on."""
    end = f"-decision-{number}"
    if len(placement) + len(end) <= LONG_LIMIT:
        return placement + end
    end = f"-{hashlib.sha256(placement.encode()).hexdigest()[:10]}{end}"
    # The cut may end with a dash or a dot, which the end of no part of a DNS name may be.
    return placement[: LONG_LIMIT - len(end)].rstrip("-.") + end
