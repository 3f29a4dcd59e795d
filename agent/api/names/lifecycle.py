"""Names about the life of targets: requests of users on a Target, and reports of the agent."""

from agent.api.names.prefixes import SHORT_PREFIX

RETIRE = "retire"
"""Annotation of a Target (suffix): `true` empties the target and sends no more pods to it."""
LOST = "lost"
"""Annotation of a Target (suffix): `true` is a user's declaration that none of its pods still runs."""
FAILOVER_AFTER = "failover-after"
"""Annotation of a Target, pod, owner or namespace (suffix): time for which a target that does not answer keeps
its pods."""
FAILOVER_NOW = "failover-now"
"""Annotation of a Target (suffix): `true` ends that waiting at once, until the target answers again."""
FAIL_BACK = "fail-back"
"""Annotation of a pod, owner or namespace (suffix): whether pods return to a target that they prefer."""
NEVER, AUTO = "never", "auto"
FAIL_BACKS = (NEVER, AUTO)
ANNOTATION_OUTAGES = SHORT_PREFIX + "outages"
"""Annotation of Targets: JSON list of the starts of outages in the last hour."""

TARGET_LOST = "Lost"
"""Condition of a Target: whether its pods must be replaced in other targets. It stays after the target was
first lost."""
NO_ANSWER, DECLARED, ASKED = "NoAnswer", "Declared", "Asked"
FAILOVER_HELD = "FailoverHeld"
"""Condition of a Target that would be lost if most others were not away, too. It stays after the first such outage."""
MOST_TARGETS_LOST = "MostTargetsLost"
CLUSTER_ANSWERS = "ClusterAnswers"
STABLE = "Stable"
"""Condition of a Target: whether it may get new pods, as far as outages matter."""
FLAPPING = "Flapping"
POD_LOST = "TargetLost"
"""Reason of a pod that has failed with its target, and of its condition DisruptionTarget."""
RETIRED = "Retired"
"""Condition of a Target that is being emptied: whether it is empty."""
OVER_LIMIT, IN_BOUNDS = "OverLimit", "InBounds"
"""Condition of a Target: whether its pods request more than its limits now allow. It stays after they first did."""
EMPTYING, BLOCKED, EMPTY = "Emptying", "Blocked", "Empty"

TAINT_RETIRING = SHORT_PREFIX + "retiring"
TAINT_LOST = SHORT_PREFIX + "lost"
TAINT_RETURNING = SHORT_PREFIX + "returning"
"""Taint of a virtual node whose target answers again, and gets no new pods until it has done so for a while."""
