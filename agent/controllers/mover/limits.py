"""How many moves may begin: so many at the same time, and so many in a second."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from agent.base.clock import parse
from agent.kube.store import Object

AGAIN_SECONDS = 1.0
"""Pause of an owner whose move may not begin yet."""


_PLACES = timedelta(seconds=10)
"""What is written on a pod sooner is out of date as soon as it is read."""
_WAITS, _STARTS = timedelta(seconds=60), timedelta(seconds=600)
"""For so long a replacement without a node counts, and one that has one: as long as a rollout may get nowhere."""


def is_starting(new: Object, now: datetime) -> bool:
    """Whether a replacement counts as one that is about to start."""
    created = parse(new.head.metadata.creation_timestamp or "")
    return now - created < (_STARTS if new.node_name else _WAITS)


def is_waiting(new: Object, now: datetime) -> bool:
    """Whether a pod has been without a node for longer than it takes where there is room."""
    return not new.node_name and now - parse(new.head.metadata.creation_timestamp or "") >= _PLACES


class Limits:
    """`under_way` says how many replacements are about to start, of all owners, as stores show them."""

    def __init__(self, parallel: int, rate: float, under_way: Callable[[], int]) -> None:
        self._parallel = parallel
        self._rate = rate
        self._under_way = under_way
        self._left = max(1.0, rate)
        self._at = time.monotonic()

    def may_begin(self, *, tries: bool = False, ahead: int = 0) -> bool:
        """Whether one more may begin now; unless it only tries, it counts as begun then.

        :param ahead: how many are about to begin that stores do not show yet
        """
        now = time.monotonic()
        self._left = min(max(1.0, self._rate), self._left + (now - self._at) * self._rate)
        self._at = now
        if self._under_way() + ahead >= self._parallel or self._left < 1.0:
            return False
        if not tries:
            self._left -= 1.0
        return True
