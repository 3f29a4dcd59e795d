"""Labels, annotations, taints and claims of Open Cluster Management, and ours that stand beside them."""

import hashlib

from agent.api.names.derived import LONG_LIMIT, SHORT_LIMIT, join
from agent.api.names.prefixes import SHORT_PREFIX

OCM_GROUP = "cluster.open-cluster-management.io"
WORK_GROUP = "work.open-cluster-management.io"

OURS = SHORT_PREFIX + "ours"
"""Label of CRDs of this group that Flotilla's chart brought: then it is Flotilla that evaluates Placements."""

# Of PlacementDecisions
LABEL_PLACEMENT = OCM_GROUP + "/placement"
LABEL_GROUP_INDEX = OCM_GROUP + "/decision-group-index"
LABEL_GROUP_NAME = OCM_GROUP + "/decision-group-name"

# Of Placements
SCHEDULING_DISABLED = OCM_GROUP + "/experimental-scheduling-disable"
"""Annotation: `true` keeps Open Cluster Management's own controller from evaluating it."""
EVALUATE = SHORT_PREFIX + "evaluate"
"""Annotation of a Placement on a hub: `true` beside the one above has us evaluate it."""
KEEP_DECIDED = SHORT_PREFIX + "keep-decided"
"""Annotation of a Placement: `true` keeps decided clusters as long as they are feasible."""
WHEN_UNPLACED = SHORT_PREFIX + "when-unplaced"
"""Annotation of a Placement: what becomes of bound pods whose cluster is no longer decided; `stay` is the default."""
STAY, MOVE = "stay", "move"
WHEN_UNPLACED_CHOICES = (STAY, MOVE)

# Of ManagedClusters
LABEL_CLUSTER_SET = OCM_GROUP + "/clusterset"
DEFAULT_SET = "default"
GLOBAL_SET = "global"
LOCAL_CLUSTER = "local-cluster"
"""Name and label of the cluster that is its own target."""
LABEL_CLUSTER_NAME = "open-cluster-management.io/cluster-name"
"""On the namespace of a ManagedCluster: its name."""
LABEL_SPOKE_ONLY = "open-cluster-management.io/spoke-only"
"""On a ClusterClaim or ClusterProperty: it is not told to the hub."""
CLAIM_ID = "id.k8s.io"
CLAIM_KUBE_VERSION = "kubeversion.open-cluster-management.io"
CLAIM_PLATFORM = "platform.open-cluster-management.io"
CLAIM_PRODUCT = "product.open-cluster-management.io"
CONDITION_AVAILABLE = "ManagedClusterConditionAvailable"
TAINT_UNAVAILABLE = OCM_GROUP + "/unavailable"
TAINT_UNREACHABLE = OCM_GROUP + "/unreachable"

# Of AddOnPlacementScores
USAGE_SCORES = "resource-usage-score"
"""Name of those with the scores of usage that we make ourselves."""

# Of Targets and virtual nodes
MANAGED_CLUSTER = SHORT_PREFIX + "managed-cluster"
"""Annotation of a Target or ClusterTarget: the name of its ManagedCluster. Label of the virtual node: the one found."""
CLAIMS = SHORT_PREFIX + "claims"
"""Annotation of a ClusterSummary: ClusterClaims and ClusterProperties by name, as JSON."""
USED = SHORT_PREFIX + "used"
"""Annotation of a ClusterSummary: what its nodes use together, as JSON of quantities."""

# Of pods and namespaces (suffixes: each is accepted under both prefixes)
PLACEMENT = "placement"
PLACEMENT_GROUP = "placement-group"


def decision_label(placement: str) -> str:
    """The value by which PlacementDecisions name their Placement in a label: its name, where that is short enough."""
    return join(SHORT_LIMIT, (placement,))


def decision_name(placement: str, number: int) -> str:
    """The name of the PlacementDecision of this number, from 1 on."""
    end = f"-decision-{number}"
    if len(placement) + len(end) <= LONG_LIMIT:
        return placement + end
    end = f"-{hashlib.sha256(placement.encode()).hexdigest()[:10]}{end}"
    # A cut may leave a dash or a dot at the end, where no part of a DNS name ends with one.
    return placement[: LONG_LIMIT - len(end)].rstrip("-.") + end
