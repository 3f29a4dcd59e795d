"""How many moves may begin: so many at the same time, and so many in a second. Lost pods first, then by priority."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from agent.base.clock import parse
from agent.controllers.mover.facts import facts_of, is_replacement
from agent.kube.store import Object
from agent.model.podstate import ENDED

AGAIN_SECONDS = 1.0
"""Pause of an owner whose move may not begin yet."""
STARTS_SECONDS = 60.0
"""Seconds for which a replacement that is not ready counts: one that does not start holds up no owner but its own."""
_ASKS_SECONDS = 3 * AGAIN_SECONDS
"""Seconds for which a refused move is preferred to those of a lower rank: its owner asks again sooner than that."""
_PLACES = timedelta(seconds=10)
"""What is written on a pod sooner is out of date as soon as it is read."""


def is_waiting(new: Object, now: datetime) -> bool:
    """Whether a pod has been without a node for longer than it takes where there is room."""
    return not new.node_name and now - parse(new.head.metadata.creation_timestamp or "") >= _PLACES


class Starting:
    """Replacements of all owners that are about to start. Moments are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        """Moment of creation by UID, the oldest first."""

    def note(self, old: Object | None, new: Object | None, moment: float, now: datetime) -> None:
        """Follow a change of a proxy pod.

        :param now: time of day by the API server's clock
        """
        if old is not None and (new is None or new.uid != old.uid):
            self._since.pop(old.uid, None)
        if new is None:
            return
        if not _starts(new):
            self._since.pop(new.uid, None)
        elif new.uid not in self._since:
            age = max(0.0, (now - parse(new.head.metadata.creation_timestamp or "")).total_seconds())
            if age < STARTS_SECONDS:
                self._since[new.uid] = moment - age

    def count(self, moment: float) -> int:
        """Return how many there are."""
        while self._since and moment - next(iter(self._since.values())) >= STARTS_SECONDS:
            del self._since[next(iter(self._since))]
        return len(self._since)


def _starts(pod: Object) -> bool:
    if not is_replacement(pod) or pod.deleting or pod.phase in ENDED:
        return False
    ready = facts_of(pod).condition("Ready")
    return ready is None or ready.status != "True"


class Limits:
    """Limits that all owners share. Their own are those of `decide`."""

    def __init__(self, parallel: int, rate: float, under_way: Callable[[], int]) -> None:
        """:param under_way: returns how many replacements are about to start, as stores show them"""
        self._parallel = parallel
        self._rate = rate
        self._under_way = under_way
        self._left = max(1.0, rate)
        self._at = time.monotonic()
        self._refused: dict[tuple[bool, int], float] = {}
        """Moment of the last refusal by rank."""

    def may_begin(self, priority: int = 0, *, lost: bool = False, tries: bool = False, ahead: int = 0) -> bool:
        """Return whether one more move may begin now; unless it only tries, it counts as begun then.

        :param priority: of the pod's priority class
        :param lost: the pod is in a lost target and serves no client, so the rate does not apply
        :param ahead: how many are about to begin that stores do not show yet
        """
        now, rank = time.monotonic(), (lost, priority)
        self._left = min(max(1.0, self._rate), self._left + (now - self._at) * self._rate)
        self._at = now
        self._refused = {each: at for each, at in self._refused.items() if now - at < _ASKS_SECONDS}
        is_full = self._under_way() + ahead >= self._parallel
        if is_full or (self._left < 1.0 and not lost) or rank < max(self._refused, default=rank):
            self._refused[rank] = now
            return False
        if not (tries or lost):
            self._left -= 1.0
        return True
