"""Annotations about features and devices of nodes."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_DECLARED_FEATURES = SHORT_PREFIX + "declared-features"
"""Annotation of the ClusterSummary: JSON list of features that every node declares in `status.declaredFeatures`."""
RESOURCE_CLAIMS = "resource-claims"
"""Suffix of a pod's annotation. Value `target`: the claims and templates in `spec.resourceClaims` exist in targets."""
