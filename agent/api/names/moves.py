"""Names of where pods may be and how they move: annotations that users write (suffixes: each is accepted under both
prefixes), and what the mover writes on the pods that it moves.
"""

from agent.api.names.prefixes import SHORT_PREFIX

TARGETS = "targets"
"""Of a namespace, of what controls pods, or of a pod: targets that its pods may go to, in groups of preference; what is
said closest to the pod counts. An empty value is all of them."""
ALLOWED_TARGETS = "allowed-targets"
"""The same without preferences: nothing that is said closer to the pod adds to it."""
MOVE = "move"
"""Annotation of a pod, its owner or its namespace (suffix): how its pods move to another target."""
SURGE, EVICT, NEVER = "surge", "evict", "never"
MOVE_CHOICES = (SURGE, EVICT, NEVER)

ANNOTATION_REPLACES = SHORT_PREFIX + "replaces"
"""On a replacement until it is adopted: UID of the pod that it is to replace."""
ANNOTATION_REPLACED_BY = SHORT_PREFIX + "replaced-by"
"""On a pod that is about to go: UID of its replacement."""
ANNOTATION_WITHDRAWN = SHORT_PREFIX + "withdrawn"
"""On a pod that an earlier version was about to end: JSON list of labels that its delegate does not have."""
ANNOTATION_COST_WAS = SHORT_PREFIX + "deletion-cost-was"
"""On the same: the deletion cost that it had, empty for none."""
ANNOTATION_MOVED = SHORT_PREFIX + "moved"
"""On a replacement: JSON of the virtual node of the pod that it replaces, the cause, and since when."""
MARKS = (ANNOTATION_REPLACED_BY, ANNOTATION_WITHDRAWN, ANNOTATION_COST_WAS)
"""What is on a pod that is replaced, and goes when that is undone."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

CONDITION = "multicluster/Placed"
"""Condition of a proxy pod: whether it is where it should be; there once it was not."""
