"""Names of fences: who asks for one, the Lease that a source renews in a target, and what both say of it on objects."""

from agent.api.names.prefixes import SHORT_PREFIX

FENCE = "fence"
"""Annotation of a pod, owner or namespace (suffix): `lease` stops delegates where their source cannot be heard."""
LEASE, NONE = "lease", "none"
FENCES = (LEASE, NONE)

LEASE_PREFIX = "multicluster-fence-"
LABEL_FENCE = SHORT_PREFIX + FENCE
"""On these Leases: UID of the source's namespace kube-system."""
ANNOTATION_LEASE = SHORT_PREFIX + "fence-lease"
"""On chaperons: name of the Lease in their namespace without whose renewals their delegates are stopped."""
ANNOTATION_KEPT_BY = SHORT_PREFIX + "fence-kept-by"
"""On the same, by the target's agent: its replica, and how many seconds after the last renewal the delegate is gone."""
ANNOTATION_FENCED = SHORT_PREFIX + "fenced"
"""On chaperons, by the target's agent: since when they have no delegate for want of renewals, and never will."""
ANNOTATION_KEPT = SHORT_PREFIX + "fence-kept"
"""On proxy pods: in how many seconds after the last renewal their delegate is gone, as their target has said."""


def lease(cluster_uid: str, node: str) -> str:
    """Name of the Lease of a source for its Target of this virtual node: several Targets may lead to one cluster."""
    return f"{LEASE_PREFIX}{cluster_uid}-{node}"[:_LIMIT].rstrip("-.")


_LIMIT = 253
