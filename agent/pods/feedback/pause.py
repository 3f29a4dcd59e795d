"""Pause between the deletion of a proxy pod and that of its chaperon: Services stop routing to the delegate. Pure.

Kubernetes takes the terminating proxy pod out of the source's EndpointSlices. The delegate loses the label
`multicluster/serving`: its target's slices drop it, and the mirrors in all other clusters follow. `--withdraw` later
the chaperon is deleted. The pause counts as a preStop sleep does: the delegate gets the rest of its grace period.
"""

import math
from typing import NamedTuple

LONGEST_SECONDS = 30.0
LEFT_SECONDS = 2.0
"""Seconds that the containers get to end in any case, as from a kubelet after a preStop hook."""
RECHECK_SECONDS = 1.0


class Pause(NamedTuple):
    """Pause of one delegate that may serve."""

    withdraw: float
    """Seconds from the moment the last cluster has followed until the delegate may end; 0 for no pause."""
    grace: float
    """Seconds that the deletion grants the delegate."""
    elapsed: float
    """Seconds since the pause began."""
    followed: float | None
    """Seconds since no cluster routes traffic to the delegate; None while one does, or may."""
    unseen: bool = False
    """Whether a cluster cannot be read: it then gets the whole pause to follow."""


def longest(grace: float) -> float:
    """Return how many seconds a pause may take at most, 0 if the grace period is too short for one."""
    return max(0.0, min(LONGEST_SECONDS, grace - LEFT_SECONDS))


def left(pause: Pause) -> float:
    """Return the seconds until the pause is to be checked again, 0 if the delegate may end.

    A cluster that does not follow costs the containers at most half of their grace period.
    """
    most = longest(pause.grace)
    if not (pause.withdraw and most):
        return 0.0
    if pause.followed is None:
        until = min(most, pause.grace / 2) - pause.elapsed
        return max(0.0, min(RECHECK_SECONDS, until))
    due = pause.withdraw * (2 if pause.unseen else 1) - pause.followed
    return max(0.0, min(due, most - pause.elapsed))


def expected_seconds(withdraw: float, grace: int) -> int:
    """Return the grace period that is left to a delegate after a pause of the usual length."""
    return max(1, int(grace - min(withdraw + RECHECK_SECONDS, longest(grace))))


def rest_seconds(grace: int, elapsed: float) -> int:
    """Return the grace period that is left to a delegate after a pause; fractions count as whole seconds."""
    return max(1, math.ceil(grace - elapsed))
