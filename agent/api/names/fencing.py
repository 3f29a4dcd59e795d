"""Names of fences: the request for one, the Lease that a source renews in a target, and records of both clusters."""

from agent.api.names.prefixes import SHORT_PREFIX

FENCE = "fence"
"""Annotation of a pod, owner or namespace (suffix): `lease` stops delegates that lose contact with their source."""
LEASE, NONE = "lease", "none"
FENCES = (LEASE, NONE)

LEASE_PREFIX = "multicluster-fence-"
LABEL_FENCE = SHORT_PREFIX + FENCE
"""Label of these Leases: UID of the source's namespace kube-system."""
ANNOTATION_LEASE = SHORT_PREFIX + "fence-lease"
"""Annotation of chaperons: name of a Lease in their namespace. When it expires, their delegates are stopped."""
ANNOTATION_KEPT_BY = SHORT_PREFIX + "fence-kept-by"
"""Annotation of chaperons by the target's agent: its replica, and the seconds from the last renewal until the
delegate has certainly stopped."""
ANNOTATION_FENCED = SHORT_PREFIX + "fenced"
"""Annotation of chaperons by the target's agent: time since when they permanently have no delegate, for lack of
renewals."""
ANNOTATION_KEPT = SHORT_PREFIX + "fence-kept"
"""Annotation of proxy pods: seconds from the last renewal until their delegate has stopped, as their target has
reported."""


def lease(cluster_uid: str, node: str) -> str:
    """Return the name of a source's Lease for its Target of this virtual node: a cluster may have several Targets."""
    return f"{LEASE_PREFIX}{cluster_uid}-{node}"[:_LIMIT].rstrip("-.")


_LIMIT = 253
