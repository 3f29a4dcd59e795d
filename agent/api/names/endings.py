"""Annotations with which a source sets how the delegate of a deleted chaperon ends."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_GRACE_PERIOD = SHORT_PREFIX + "grace-period"
"""Annotation of a chaperon: grace period of its delegate in seconds if shorter than the delegate's own. It is
used once the chaperon is deleted. The target's agent reads it again at each change."""
