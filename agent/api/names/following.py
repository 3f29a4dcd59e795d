"""Names of annotations that record how proxy pod and delegate follow each other."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_OBSERVED = SHORT_PREFIX + "observed-generation"
"""Annotation of chaperons: generation of the proxy pod that the delegate has followed and its kubelet observed."""
ANNOTATION_TARGET_CONDITIONS = SHORT_PREFIX + "target-conditions"
"""Annotation of proxy pods: types of the conditions that controllers in the target own, separated by commas."""
