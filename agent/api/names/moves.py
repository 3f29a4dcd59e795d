"""Names about targets of pods and their moves: annotations of users, and annotations of the mover.

Names of users' annotations are suffixes: each is accepted under both prefixes.
"""

from agent.api.names.prefixes import SHORT_PREFIX

TARGETS = "targets"
"""Annotation of a namespace, owner or pod: targets that its pods may use, in groups of preference. The value
closest to the pod counts; an empty value means all."""
ALLOWED_TARGETS = "allowed-targets"
"""As above without preferences: a value closer to the pod cannot add targets."""
MOVE = "move"
"""Annotation of a pod, its owner or its namespace (suffix): how its pods move to another target."""
SURGE, EVICT, NEVER = "surge", "evict", "never"
MOVE_CHOICES = (SURGE, EVICT, NEVER)

ANNOTATION_REPLACES = SHORT_PREFIX + "replaces"
"""Annotation of a replacement until it is adopted: UID of the pod that it replaces."""
ANNOTATION_REPLACED_BY = SHORT_PREFIX + "replaced-by"
"""Annotation of a replaced pod before its deletion: UID of its replacement."""
ANNOTATION_WITHDRAWN = SHORT_PREFIX + "withdrawn"
"""Annotation of a pod that an earlier version was about to end: JSON list of labels that its delegate does not have."""
ANNOTATION_COST_WAS = SHORT_PREFIX + "deletion-cost-was"
"""Annotation of a replaced pod: its original deletion cost, empty for none."""
ANNOTATION_MOVED = SHORT_PREFIX + "moved"
"""Annotation of a replacement: JSON of the virtual node of the pod that it replaces, the cause, and the start."""
MARKS = (ANNOTATION_REPLACED_BY, ANNOTATION_WITHDRAWN, ANNOTATION_COST_WAS)
"""Annotations of a replaced pod, which are removed when the replacement is cancelled."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

CONDITION = "multicluster/Placed"
"""Condition of a proxy pod: whether it is in a target that it should be in. It stays after it was first False."""
