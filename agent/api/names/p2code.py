"""Names of P2CODE's scheduler, which places the whole application of a manifest, and Flotilla's names for its
objects."""

import hashlib

from agent.api.names.prefixes import SHORT_PREFIX

P2CODE_GROUP = "scheduling.p2code.eu"

FINALIZER = P2CODE_GROUP + "/finalizer"
LABEL_OWNER = P2CODE_GROUP + "/owner"
"""Label of all objects that are applied for a P2CodeSchedulingManifest: its name, shortened by `cut`."""
LABEL_PSM_UID = SHORT_PREFIX + "psm-uid"
"""Label of these objects: its UID."""
ANNOTATION_APPLIED = SHORT_PREFIX + "applied"
"""Annotation of these objects: digest of the applied manifest."""
FIELD_MANAGER = "flotilla-p2code"
"""Owner of the applied fields."""

# Annotations of P2CodeSchedulingManifests
APPLY_AS = "apply-as"
"""Service account of its namespace whose rights are used to apply its manifests (suffix)."""
DEFAULT_ACCOUNT = "p2code"
DISTRIBUTION = "distribution"
"""Annotation of a P2CodeSchedulingManifest (suffix): how its bundles reach their clusters; one of DISTRIBUTIONS."""
ELECTED, WORKS = "elect", "works"
DISTRIBUTIONS = (ELECTED, WORKS)
ANNOTATION_APPLIED_KINDS = SHORT_PREFIX + "applied-kinds"
"""Kinds and namespaces of objects that may have been applied, `KIND.GROUP/NAMESPACE,...`: the places to prune."""

# Content of spec.globalAnnotations and spec.workloadAnnotations: keys of strings, not of annotations of the
# object
TARGET_SET = "p2code.target.managedClusterSet"
TARGET_CLUSTER = "p2code.target.cluster"
FILTER = "p2code.filter"
"""Prefix of filters; a filter's whole key is also the name of the ClusterClaim with the value."""

P2CODE_NAMESPACE = "p2code-scheduler-system"
"""The only namespace that P2CODE's own scheduler watches."""

# Annotations of workloads (suffixes: each is accepted under both prefixes)
DEPENDS_ON = "depends-on"
"""Services that its pods call although their manifests do not show it: `NAMESPACE/NAME:PORT`, separated by commas."""
IGNORE_LINKS = "ignore-links"
"""Services that its pods do not call although their manifests suggest it: in the same form, or `*` for all."""

_LIMIT = 63
_BASE_LIMIT = 52
_HASH_LENGTH = 10


def cut(name: str) -> str:
    """Return a name that fits into a label: above 63 characters, cut to 52 with 10 hex digits of its SHA-256.

    P2CODE's own scheduler only cuts, so that two long names may collide.
    """
    if len(name) <= _LIMIT:
        return name
    # The cut may end with a dot, which the end of no part of a DNS name may be.
    return f"{name[:_BASE_LIMIT].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]}"


def bundle_placement(bundle: str, psm: str) -> str:
    """Return the name of the Placement of a bundle."""
    return cut(f"{bundle}-{psm}")
