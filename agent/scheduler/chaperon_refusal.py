"""What a target's refusal of a chaperon means: for the pod, which goes to another target, and for the target."""

from collections.abc import Mapping
from typing import Any

from agent.api.conditions import PODS_CREATED, find_condition
from agent.clusters.refusal_backoff import concerns_all
from agent.clusters.target import Target
from agent.kube.errors import Conflict, StatusError, Unauthorized

NO_ANSWER = "NoAnswer"
"""Reason of a target that answers reads, and leaves the creation of chaperons unanswered."""

FAILING = "PodsFailing"
"""Reason of a target that takes chaperons, where no pods can be created for them."""


class ChaperonRefused(Exception):
    """The target has answered, and not taken a chaperon or what it needs; the message is what the pod says of it.

    `for_certain`: there is no chaperon by this, and there will be none.
    """

    def __init__(self, message: str, *, for_certain: bool) -> None:
        super().__init__(message)
        self.for_certain = for_certain


def untaken(proxy: Mapping[str, Any], target: Target, error: StatusError, *, sent: bool) -> ChaperonRefused | None:
    """What an error means that came of sending a chaperon, which the target's memory takes note of.

    None for one that another try may overcome at once, or that did not come from the target.

    :param sent: whether the chaperon itself was refused, and not something that the pod needs there
    """
    if isinstance(error, Conflict) or not target.port.has_said(error):
        return None
    if isinstance(error, Unauthorized):
        target.probe_now()
    if concerns_all(error):
        note(proxy, target, type(error).__name__, error.message)
    else:
        metadata = proxy["metadata"]
        target.refusal_backoff.leave_turn(metadata["namespace"], metadata["uid"])
    if not sent:
        return ChaperonRefused(f"cannot create what the pod needs there: {error}", for_certain=True)
    return ChaperonRefused(f"cannot create PodChaperon: {error}", for_certain=error.status < 500)


def creates_no_pods(chaperon: Mapping[str, Any]) -> bool:
    """Whether a chaperon says that no pods can be created in its cluster for now, whatever is in them."""
    conditions = (chaperon.get("status") or {}).get("conditions")
    return (find_condition(conditions, PODS_CREATED) or {}).get("status") == "False"


def note(proxy: Mapping[str, Any], target: Target, reason: str, words: str) -> None:
    """A target refuses a pod for a reason that concerns all pods of its namespace."""
    target.refusal_backoff.refused(proxy["metadata"]["namespace"], proxy["metadata"]["uid"], reason, words)
