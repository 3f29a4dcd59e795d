"""Names by which a source tells a target how the delegate of a deleted chaperon ends."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_GRACE_PERIOD = SHORT_PREFIX + "grace-period"
"""On chaperons: seconds that the delegate gets to end once the chaperon is deleted, where its spec gives it more. The
target's agent shortens the deletion of the delegate, at each change of this annotation."""
