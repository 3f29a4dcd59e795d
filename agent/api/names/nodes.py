"""Names of what belongs to the nodes of a cluster: features and devices."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_DECLARED_FEATURES = SHORT_PREFIX + "declared-features"
"""On the ClusterSummary: JSON list of the features that all nodes declare (`status.declaredFeatures`)."""
RESOURCE_CLAIMS = "resource-claims"
"""Annotation of a pod (suffix): `target` says that what `spec.resourceClaims` names exists in targets."""
