"""Names of annotations that chaperons and delegates have, and proxy pods do not."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_NEW_LABELS = SHORT_PREFIX + "new-labels"
"""On chaperons of an earlier version: the delegate lacks labels under `multicluster/` that the chaperon has by now. The
target's agent adds them and removes the annotation."""
ANNOTATION_LABELS_FILE = SHORT_PREFIX + "labels-file"
"""On chaperons and delegates with a downward API file of all labels: the text of that file."""
ANNOTATION_ANNOTATIONS_FILE = SHORT_PREFIX + "annotations-file"
"""The same of a file of all annotations."""
ANNOTATION_RESTARTS = SHORT_PREFIX + "restarts"
"""On chaperons: JSON of restart counts by container that delegates before the present one have left behind."""
