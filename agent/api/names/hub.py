"""Names of Open Cluster Management's registration: of members, their certificates, rights, leases and conditions."""

from agent.api.names.ocm import OCM_GROUP
from agent.api.names.prefixes import SHORT_PREFIX

ADDON_GROUP = "addon.open-cluster-management.io"
REGISTER_GROUP = "register.open-cluster-management.io"
"""API group that occurs only in rights."""
PREFIX = "open-cluster-management:"
USER_PREFIX = "system:open-cluster-management:"
MEMBERS_GROUP = USER_PREFIX + "managed-clusters"
"""Group of the agents of all members."""
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"

# Bootstrap
BOOTSTRAP_NAMESPACE = "open-cluster-management"
BOOTSTRAP_ACCOUNT = "agent-registration-bootstrap"
BOOTSTRAP_ROLE = PREFIX + "bootstrap"
BOOTSTRAP_GROUP = "system:bootstrappers:managedcluster"
"""Group of all bootstrap tokens. A token for a single cluster is also in the group of its name (`token_group`)."""
LABEL_TOKEN = "app"
"""Label of the Secrets of bootstrap tokens; its value is `cluster-manager`, by which clusteradm finds them."""
TOKEN_LABEL_VALUE = "cluster-manager"
ACCEPTS = SHORT_PREFIX + "accepts"
"""Annotation of a bootstrap token's Secret: name of the cluster whose first request needs no person."""

# Rights of members
REGISTRATION_ROLE = PREFIX + "managedcluster:registration"
WORK_ROLE = PREFIX + "managedcluster:work"
SHARED_ROLES = ("registration", "work")
"""Names that no cluster can have: its own ClusterRole would be one that all members share."""
MEMBER_USER = SHORT_PREFIX + "member-user"
"""Annotation of a ManagedCluster: the only user that has the rights of the member; without it its groups have."""

# ManagedClusters
ACCEPTED = "HubAcceptedManagedCluster"
JOINED = "ManagedClusterJoined"
CLOCK_SYNCED = "ManagedClusterConditionClockSynced"
DELETING = "Deleting"
FINALIZER_CLEANUP = OCM_GROUP + "/resource-cleanup"
FINALIZER_API_CLEANUP = OCM_GROUP + "/api-resource-cleanup"
CLEANUP_PRIORITY = "open-cluster-management.io/cleanup-priority"
"""Annotation of an addon or ManifestWork: order of its deletion with the cluster, 0 (first) to 100."""
ABANDON = SHORT_PREFIX + "abandon"
"""Annotation of a ManagedCluster that is being deleted: `true` releases objects that only its agent could clean up."""
AUTOMATICALLY_ACCEPTED = "open-cluster-management.io/automatically-accepted-on"
SKIP_CLOCK_CHECK = "registration.open-cluster-management.io/skip-clock-sync-check"
LEASE = "managed-cluster-lease"
LABEL_ADDON = ADDON_GROUP + "/addon-name"
"""Label of a certificate request of an addon's agent, which only the addon's own manager approves."""


def member_role(cluster: str) -> str:
    """Return the name of the ClusterRole of one member, and of its binding."""
    return f"{PREFIX}managedcluster:{cluster}"


def member_groups(cluster: str) -> tuple[str, str]:
    """Return the groups with the rights of one member: of its certificates, and of identities from elsewhere."""
    return USER_PREFIX + cluster, PREFIX + cluster


def token_group(cluster: str) -> str:
    """Return the group of bootstrap tokens that can register only this cluster."""
    return f"{BOOTSTRAP_GROUP}:{cluster}"
