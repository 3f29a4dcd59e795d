"""Waiting pods: retried after a change of targets, at a bounded rate and in the order of their priority.

Summaries of targets change all the time. Ranking 10,000 waiting pods at each change would take a whole core.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from agent.kube.store import Key

SHARE = 0.25
"""Fraction of time that may be spent on pods that were tried before."""
BURST_SECONDS = 0.25
"""Maximum work after a quiet time, in seconds: if few pods wait, all of them are tried at once."""
_FEW = 1000
"""Number of outdated heap entries that are tolerated before the heap is rebuilt."""


class _Stale(NamedTuple):
    number: int
    in_vain: bool


class WaitingPods:
    """Pods, and groups of pods, that wait for a change.

    :param enqueue: called with the pod to try, and True if an earlier attempt was unsuccessful
    :param order: returns the sort key of a pod, smallest first; equal pods are ordered by waiting time
    :param seconds: returns the estimated seconds of one attempt
    """

    def __init__(
        self, enqueue: Callable[[Key, bool], None], order: Callable[[Key], Any], seconds: Callable[[], float]
    ) -> None:
        self._enqueue, self._order, self._seconds = enqueue, order, seconds
        self._waiting: dict[Key, bool] = {}
        """Pods tried since the last change; True if the attempt was unsuccessful."""
        self._stale: dict[Key, _Stale] = {}
        """Pods that may now find a target."""
        self._heap: list[tuple[Any, int, Key]] = []
        self._numbers = itertools.count()
        self._left, self._since = BURST_SECONDS, 0.0
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, key: Key, *, in_vain: bool) -> None:
        """Record that a pod waits."""
        self._stale.pop(key, None)
        self._waiting[key] = in_vain

    def leave(self, key: Key) -> bool:
        """Record that a pod is being tried or has been deleted. Return True if it waited after an unsuccessful
        attempt.
        """
        stale = self._stale.pop(key, None)
        return self._waiting.pop(key, stale is not None and stale.in_vain)

    def changed(self) -> None:
        """Retry all waiting pods at the bounded rate."""
        waiting, self._waiting = self._waiting, {}
        for key, in_vain in waiting.items():
            self._age(key, in_vain)
        self._release()

    def try_again(self, key: Key, *, in_vain: bool) -> None:
        """Retry a pod at the bounded rate after a change during its attempt."""
        self._age(key, in_vain)
        self._release()

    def _age(self, key: Key, in_vain: bool) -> None:
        self._stale[key] = _Stale(next(self._numbers), in_vain)
        heapq.heappush(self._heap, (self._order(key), self._stale[key].number, key))
        if len(self._heap) > 2 * len(self._stale) + _FEW:
            self._heap = [entry for entry in self._heap if self._is_valid(entry)]
            heapq.heapify(self._heap)

    def _is_valid(self, entry: tuple[Any, int, Key]) -> bool:
        stale = self._stale.get(entry[2])
        return stale is not None and stale.number == entry[1]

    def _release(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._left = min(BURST_SECONDS, self._left + (now - self._since) * SHARE)
        self._since = now
        while self._heap:
            if not self._is_valid(self._heap[0]):
                heapq.heappop(self._heap)
                continue
            if self._left <= 0:
                if self._timer is None:
                    self._timer = loop.call_later(max(0.01, -self._left / SHARE), self._due)
                return
            key = heapq.heappop(self._heap)[2]
            self._left -= self._seconds()
            self._enqueue(key, self._stale.pop(key).in_vain)

    def _due(self) -> None:
        self._timer = None
        self._release()
