"""Names by which a source has a delegate go that has no node in its target."""

from agent.api.names.prefixes import SHORT_PREFIX

ANNOTATION_GIVE_UP = SHORT_PREFIX + "give-up"
"""On chaperons: since when the source wants the delegate elsewhere, if it has no node: the target's agent deletes one
that has none, and takes the annotation off a chaperon whose delegate has one."""
ANNOTATION_AGENT_ANSWERS = SHORT_PREFIX + "agent-answers"
"""On the ClusterSummary: what sources may ask of the agent by annotations of chaperons, separated by commas."""
