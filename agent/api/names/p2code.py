"""Names of P2CODE's scheduler: whole applications in one P2CodeSchedulingManifest, and ours that stand beside them."""

import hashlib

from agent.api.names.prefixes import SHORT_PREFIX

P2CODE_GROUP = "scheduling.p2code.eu"

FINALIZER = P2CODE_GROUP + "/finalizer"
LABEL_OWNER = P2CODE_GROUP + "/owner"
"""On everything that is applied for a P2CodeSchedulingManifest: its name, as `cut` has it."""
LABEL_PSM_UID = SHORT_PREFIX + "psm-uid"
"""On the same: its UID."""
ANNOTATION_APPLIED = SHORT_PREFIX + "applied"
"""On the same: digest of the manifest that was applied."""
FIELD_MANAGER = "flotilla-p2code"
"""Who owns the fields that are applied."""

# Annotations of P2CodeSchedulingManifests
APPLY_AS = "apply-as"
"""Service account of its namespace by whose rights its manifests are applied (suffix)."""
DEFAULT_ACCOUNT = "p2code"
DISTRIBUTION = "distribution"
"""How its bundles get to their clusters (suffix): one of DISTRIBUTIONS."""
ELECTED, WORKS = "elect", "works"
DISTRIBUTIONS = (ELECTED, WORKS)
ANNOTATION_APPLIED_KINDS = SHORT_PREFIX + "applied-kinds"
"""Which kinds may have been applied where, `KIND.GROUP/NAMESPACE,...`: where to look for what is to be pruned."""

# What spec.globalAnnotations and spec.workloadAnnotations say: keys of strings, not of annotations of the object
TARGET_SET = "p2code.target.managedClusterSet"
TARGET_CLUSTER = "p2code.target.cluster"
FILTER = "p2code.filter"
"""With what follows it, also the name of the ClusterClaim that has the value."""

P2CODE_NAMESPACE = "p2code-scheduler-system"
"""The only namespace that P2CODE's own scheduler looks at."""

# Annotations of workloads (suffixes: each is accepted under both prefixes)
DEPENDS_ON = "depends-on"
"""Services that its pods call though nothing in them says so: `NAMESPACE/NAME:PORT`, separated by commas."""
IGNORE_LINKS = "ignore-links"
"""Services that its pods do not call, whatever looks like it: the same, or `*` for all."""

_LIMIT = 63
_BASE_LIMIT = 52
_HASH_LENGTH = 10


def cut(name: str) -> str:
    """A name that is short enough for a label: one over 63 characters is cut to 52, with 10 hex digits of its SHA-256.

    P2CODE's own scheduler only cuts, so that two long names may become one.
    """
    if len(name) <= _LIMIT:
        return name
    # A cut may leave a dot at the end, where no part of a DNS name ends with one.
    return f"{name[:_BASE_LIMIT].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]}"


def bundle_placement(bundle: str, psm: str) -> str:
    """Name of the Placement of a bundle."""
    return cut(f"{bundle}-{psm}")
