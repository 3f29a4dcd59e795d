"""Names of annotations that chaperons and delegates have, and proxy pods do not."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_NEW_LABELS = SHORT_PREFIX + "new-labels"
"""Annotation of chaperons of an earlier version: the delegate lacks labels under `multicluster/` that the
chaperon has now. The target's agent adds them and removes the annotation."""
ANNOTATION_LABELS_FILE = SHORT_PREFIX + "labels-file"
"""Annotation of chaperons and delegates with a downward API file of all labels: the text of that file."""
ANNOTATION_ANNOTATIONS_FILE = SHORT_PREFIX + "annotations-file"
"""Annotation of chaperons and delegates with a downward API file of all annotations: the text of that file."""
ANNOTATION_RESTARTS = SHORT_PREFIX + "restarts"
"""Annotation of chaperons: JSON of restart counts by container of earlier delegates."""
