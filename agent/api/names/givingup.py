"""Names by which a source requests the deletion of a delegate that has no node in its target."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_GIVE_UP = SHORT_PREFIX + "give-up"
"""Annotation of chaperons: time since when the source wants to move a delegate without a node. The target's
agent deletes a delegate without a node, and removes the annotation if the delegate has one."""
ANNOTATION_AGENT_ANSWERS = SHORT_PREFIX + "agent-answers"
"""Annotation of the ClusterSummary: requests that the agent supports by annotations of chaperons, separated by
commas."""
