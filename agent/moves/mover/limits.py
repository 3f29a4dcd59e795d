"""Limits of moves: at the same time, and per second.

Lost pods begin first, then those of a higher priority; pods that are equal in both begin in the order of their owners.
"""

import math
import time
from collections.abc import Callable, Collection, Set
from datetime import datetime, timedelta
from typing import NamedTuple

from agent.base.clock import parse
from agent.kube.store import Object
from agent.model import replacement
from agent.model.podstate import ENDED
from agent.moves.mover.facts import OwnerKey, facts_of, is_replacement

AGAIN_SECONDS = 1.0
"""Seconds until an owner whose move may not begin yet tries again."""
STARTS_SECONDS = 60.0
"""Seconds for which a bound replacement that is not ready counts: later it delays only its own owner."""
PLACES_SECONDS = 10.0
"""Seconds for which a replacement without a node counts."""
_STUCK_SECONDS = 2 * STARTS_SECONDS
"""Age at which a replacement that does not start is forgotten."""
_ASKS_SECONDS = 3 * AGAIN_SECONDS
"""Seconds for which a refused move takes precedence over lower ranks: its owner tries again sooner than that."""

Rank = tuple[bool, int]
"""Whether a pod is lost, and its priority. The higher rank begins first."""


def is_waiting(new: Object, now: datetime) -> bool:
    """Return True if a pod has had no node for PLACES_SECONDS: longer than scheduling takes if capacity exists."""
    age = now - parse(new.head.metadata.creation_timestamp or "")
    return not new.node_name and age >= timedelta(seconds=PLACES_SECONDS)


class _Start(NamedTuple):
    since: float
    """Moment of creation."""
    replaces: str
    node: str
    """Virtual node of its target; empty if it has none."""
    lost: bool = False
    """Whether it replaces a lost pod."""

    def is_stuck(self, moment: float) -> bool:
        """Return True if a replacement has taken longer than it should with capacity and a working image."""
        return moment - self.since >= (STARTS_SECONDS if self.node else PLACES_SECONDS)


class Starting:
    """Starting replacements of all owners. Moments are seconds of the monotonic clock."""

    def __init__(self, answers: Callable[[str], bool]) -> None:
        """:param answers: returns whether the target behind a virtual node answers"""
        self._answers = answers
        self._starts: dict[str, _Start] = {}
        """Starts by UID of the replacement, the oldest first."""

    def note(self, old: Object | None, new: Object | None, moment: float, now: datetime) -> bool:
        """Follow a change of a proxy pod. Return True if it has released a slot.

        :param now: time of day by the API server's clock
        """
        released = False
        if old is not None and (new is None or new.uid != old.uid):
            released = self._starts.pop(old.uid, None) is not None
        if new is None:
            return released
        known = self._starts.get(new.uid)
        if not _starts(new):
            return self._starts.pop(new.uid, None) is not None or released
        if known is not None:
            self._starts[new.uid] = known._replace(node=new.node_name)
            released |= known.lost and not known.node and bool(new.node_name)
        else:
            age = max(0.0, (now - parse(new.head.metadata.creation_timestamp or "")).total_seconds())
            if age < _STUCK_SECONDS:
                replaces = new.hot_annotations.replaces
                self._starts[new.uid] = _Start(moment - age, replaces, new.node_name, _is_for_lost(new))
        return released

    def under_way(self, moment: float) -> list[str]:
        """Return the UIDs of pods whose replacements take a slot: they are starting and not stuck.

        The replacement of a lost pod takes one until it has a node: no client is served before all of them run.
        """
        while self._starts and moment - next(iter(self._starts.values())).since >= _STUCK_SECONDS:
            del self._starts[next(iter(self._starts))]
        return [each.replaces for each in self._starts.values() if not each.is_stuck(moment) and self._may_start(each)]

    def stuck(self, moment: float) -> list[str]:
        """Return the UIDs of pods whose replacements have found no node, or do not get ready."""
        return [each.replaces for each in self._starts.values() if each.is_stuck(moment)]

    def _may_start(self, start: _Start) -> bool:
        return not start.node or (not start.lost and self._answers(start.node))


def _starts(pod: Object) -> bool:
    if not is_replacement(pod) or pod.deleting or pod.phase in ENDED:
        return False
    ready = facts_of(pod).condition("Ready")
    return ready is None or ready.status != "True"


def _is_for_lost(new: Object) -> bool:
    moved = replacement.moved(new.annotations)
    return moved is not None and moved.cause == "Lost"


class Limits:
    """Limits that all owners share; `decide` has those of a single owner.

    A rank whose replacements do not start leaves slots to lower ranks, since no target may have capacity for it.
    """

    def __init__(self, parallel: int, rate: float, starting: Starting) -> None:
        self._parallel = parallel
        self._rate = rate
        self._starting = starting
        self._left = max(1.0, rate)
        self._at = time.monotonic()
        self._refused: dict[Rank, float] = {}
        """Moment of the last refusal by rank."""
        self._waiting: dict[Rank, dict[OwnerKey, float]] = {}
        """Owners whose last try was refused, with its moment, by rank; the oldest first."""
        self._begun: dict[str, tuple[Rank, float]] = {}
        """Rank and moment of the moves that have begun lately, by UID of the pod, the oldest first."""
        self._last: dict[Rank, float] = {}
        """Moment of the last move that began, by rank."""
        self._is_others_turn = False

    def may_begin(self, rank: Rank, owner: OwnerKey, *, begin: Set[str] = frozenset()) -> bool:
        """Return True if one more move may begin now.

        After a refusal lower ranks wait until this rank tries again, and later owners of this rank until this owner
        does: otherwise it would depend on timers which of them gets scarce capacity.

        :param rank: rank of the pod; the rate does not apply to lost pods, since they serve no client
        :param begin: UIDs of all pods whose moves begin now, and whose replacements may not be in the stores yet
        """
        now, lost = time.monotonic(), rank[0]
        self._left = min(max(1.0, self._rate), self._left + (now - self._at) * self._rate)
        self._at = now
        self._forget_refused(now)
        may = (lost or self._left >= 1.0) and self._has_slot(rank, owner, begin, now)
        waiting = self._waiting.setdefault(rank, {})
        waiting.pop(owner, None)
        if not may:
            self._refused[rank] = waiting[owner] = now
        return may

    def first_refused(self) -> OwnerKey | None:
        """Return the owner that the next free slot is for, None if no owner waits for one."""
        self._forget_refused(time.monotonic())
        return min(self._waiting[max(self._waiting)]) if self._waiting else None

    def _forget_refused(self, now: float) -> None:
        self._refused = {each: at for each, at in self._refused.items() if now - at < _ASKS_SECONDS}
        for owners in self._waiting.values():
            while owners and now - next(iter(owners.values())) >= _ASKS_SECONDS:
                del owners[next(iter(owners))]
        self._waiting = {rank: owners for rank, owners in self._waiting.items() if owners}

    def begin(self, uid: str, rank: Rank) -> None:
        """Record that a move begins.

        :param uid: of the pod that moves
        """
        now = time.monotonic()
        self._left -= not rank[0]
        self._last[rank] = now
        self._is_others_turn = not self._is_others_turn
        self._begun.pop(uid, None)
        self._begun[uid] = (rank, now)
        while now - next(iter(self._begun.values()))[1] >= _STUCK_SECONDS:
            del self._begun[next(iter(self._begun))]

    def _has_slot(self, rank: Rank, owner: OwnerKey, begin: Set[str], now: float) -> bool:
        """Return True if a slot is free for an owner. The highest waiting rank has all slots while its pods start."""
        under_way = self._starting.under_way(now)
        free = self._parallel - len(under_way) - len(begin - set(under_way))
        if free <= 0:
            return False
        earlier = sum(each < owner for each in self._waiting.get(rank, ()))
        asking = {*self._refused, rank}
        top = max(asking)
        below = asking - {top}
        if not below or not self._is_stuck(top, now):
            return free > earlier and rank == top
        reserved = max(1, self._parallel // 8) if self._parallel > 1 else int(self._is_others_turn)
        left = reserved - sum(uid in self._begun and self._begun[uid][0] < top for uid in under_way)
        if rank == top:
            return free - earlier > max(0, left)
        return min(free, left) > earlier and rank == self._turn(below, now)

    def _turn(self, below: Collection[Rank], now: float) -> Rank:
        """Return the rank that reserved slots go to: the highest whose pods start, else the least recently served."""
        starting = [each for each in below if not self._is_stuck(each, now)]
        return max(starting) if starting else min(below, key=lambda each: self._last.get(each, -math.inf))

    def _is_stuck(self, rank: Rank, now: float) -> bool:
        return any(uid in self._begun and self._begun[uid][0] == rank for uid in self._starting.stuck(now))
