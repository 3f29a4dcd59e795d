"""A queue of keys: each key waits at most once and is worked on by at most one worker at a time."""

import asyncio
import heapq
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from agent.base.backoff import Backoff

K = TypeVar("K")


class Statistics(NamedTuple):
    """Contents of a queue."""

    waiting: int  #: keys ready to be taken
    working: int  #: keys taken and not yet done
    delayed: int  #: keys that become ready later
    failing: int  #: keys whose last attempt failed


class WorkQueue(Generic[K]):
    """Keys by `order`, the smallest first; equal ones in the order of arrival.

    A key added while it is being worked on is handed out again after `done`; a key added while it waits keeps its
    position. `retry` waits longer each time, until `forget`. At most `lane_width` keys of one `lane` run at a time
    (None: no lane): further ones wait without blocking other lanes.
    """

    def __init__(
        self,
        *,
        first_delay: float = 0.05,
        longest_delay: float = 60.0,
        order: Callable[[K], Any] = lambda key: 0,
        lane: Callable[[K], Hashable] = lambda key: None,
        lane_width: int = 1,
    ) -> None:
        self._ready: list[tuple[Any, int, K]] = []
        self._lane, self._lane_width = lane, lane_width
        self._busy: Counter[Hashable] = Counter()
        self._behind: defaultdict[Hashable, list[tuple[Any, int, K]]] = defaultdict(list)
        """Further ready keys of full lanes, by lane."""
        self._arrivals = itertools.count()
        self._order = order
        self._waiting: set[K] = set()
        self._working: dict[K, Hashable] = {}
        """Running keys with the lane they have been taken in."""
        self._dirty: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._backoffs: dict[K, Backoff] = {}
        self._delays = (first_delay, longest_delay)
        self._idle: deque[asyncio.Future[None]] = deque()
        """Tasks that wait for a key. A semaphore would scan all woken tasks at each key of a burst."""

    def statistics(self) -> Statistics:
        """Return the numbers of keys in the queue."""
        return Statistics(len(self._waiting), len(self._working), len(self._timers), len(self._backoffs))

    def add(self, key: K) -> None:
        """Queue the key now, or again once the current work on it is done."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._working:
            self._dirty.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            entry, lane = (self._order(key), next(self._arrivals), key), self._lane(key)
            if self._is_full(lane):
                heapq.heappush(self._behind[lane], entry)
            else:
                heapq.heappush(self._ready, entry)
                self._wake()

    def add_after(self, key: K, delay: float) -> None:
        """Queue the key in `delay` seconds, or at an earlier time already planned."""
        if delay <= 0:
            self.add(key)
            return
        if key in self._waiting or key in self._dirty:
            return
        loop = asyncio.get_running_loop()
        planned = self._timers.get(key)
        if planned is not None:
            if planned.when() <= loop.time() + delay:
                return
            planned.cancel()
        self._timers[key] = loop.call_later(delay, self._due, key)

    def retry(self, key: K) -> float:
        """Queue the key after its next backoff delay; returns that delay in seconds."""
        delay = self._backoffs.setdefault(key, Backoff(*self._delays)).next()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the key's backoff after a success."""
        self._backoffs.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and take it; `done` must follow."""
        while (key := self._take()) is None:
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            try:
                await idle
            except asyncio.CancelledError:
                if self._ready:
                    # It may have been woken for a key that another task has to take now.
                    self._wake()
                raise
        return key

    def _take(self) -> K | None:
        while self._ready:
            entry = heapq.heappop(self._ready)
            key, lane = entry[2], self._lane(entry[2])
            if self._is_full(lane):
                heapq.heappush(self._behind[lane], entry)
                continue
            if lane is not None:
                self._busy[lane] += 1
            self._waiting.discard(key)
            self._working[key] = lane
            return key
        return None

    def _is_full(self, lane: Hashable) -> bool:
        return lane is not None and self._busy[lane] >= self._lane_width

    def _wake(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    def done(self, key: K) -> None:
        """Record that the work on a key has ended."""
        if (lane := self._working.pop(key, None)) is not None:
            self._leave(lane)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def _leave(self, lane: Hashable) -> None:
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        if behind := self._behind.get(lane):
            heapq.heappush(self._ready, heapq.heappop(behind))
            self._wake()
            if not behind:
                del self._behind[lane]

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)
