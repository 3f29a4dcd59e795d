"""Limits on the number of requests to targets at the same time.

A slow or silent target must not block the work on other pods. Each limit is per target; excess requests wait and are
woken when admitted.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from agent.clusters.registry import Targets
from agent.kube.store import Key

ADMITTED_SECONDS = 5.0
"""Seconds after which an admission expires unless it is kept or released."""

_GROUP_MEMBERS = 32
"""Number of group members whose steps run concurrently."""

K = TypeVar("K", bound=Hashable)


class PrioritySemaphore(Generic[K]):
    """Semaphore with N slots; the next waiter is the one of highest priority, then the earliest.

    :param size: returns N; called on each admission and release
    :param wake: called with the key of a waiter that has been admitted
    """

    def __init__(self, size: Callable[[], int], wake: Callable[[K], None], seconds: float = ADMITTED_SECONDS) -> None:
        self._size = size
        self._seconds = seconds
        self._wake = wake
        self._admitted: dict[str, asyncio.TimerHandle] = {}
        self._waiting: dict[str, K] = {}
        self._queue: list[tuple[int, int, str]] = []
        self._arrivals = itertools.count()

    def admits(self, uid: str, key: K, priority: int) -> bool:
        """Return True if the holder of `uid` may begin now; otherwise queue it and wake it when admitted."""
        if uid in self._admitted:
            return True
        if len(self._admitted) < self._size():
            self._admit(uid)
            return True
        if uid not in self._waiting:
            self._waiting[uid] = key
            heapq.heappush(self._queue, (-priority, next(self._arrivals), uid))
        return False

    def keep(self, uid: str) -> None:
        """Keep an admitted slot beyond its expiry until it is released."""
        self._admitted[uid].cancel()

    @property
    def is_idle(self) -> bool:
        """True without admissions and waiters."""
        return not self._admitted and not self._waiting

    def release(self, uid: str) -> None:
        """Release the slot, or leave the queue, and admit the next waiter."""
        self._waiting.pop(uid, None)
        timer = self._admitted.pop(uid, None)
        if timer is None:
            return
        timer.cancel()
        while self._queue and len(self._admitted) < self._size():
            _, _, first = heapq.heappop(self._queue)
            key = self._waiting.get(first)
            if key is not None:
                self._admit(first)
                self._wake(key)

    def _admit(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._admitted[uid] = asyncio.get_running_loop().call_later(self._seconds, self.release, uid)


class TargetLimiter(Generic[K]):
    """Limits requests of one kind to N per target; further requests wait for their turn.

    :param most: returns N for a virtual node
    :param wake: called with the key of a waiter whose turn it is
    """

    def __init__(self, most: Callable[[str], int], wake: Callable[[K], None]) -> None:
        self._most = most
        self._wake = wake
        self._semaphores: dict[str, PrioritySemaphore[K]] = {}
        self._nodes: dict[str, str] = {}
        """Virtual node of the target that each UID uses or waits for."""

    @contextlib.contextmanager
    def slot(self, node_name: str, uid: str, key: K, priority: int) -> Iterator[bool]:
        """Context manager that acquires a request slot for a target; False if the caller has to wait.

        A caller waits for one target at a time.
        """
        if self._nodes.get(uid, node_name) != node_name:
            self.cancel(uid)
        self._nodes[uid] = node_name
        semaphore = self._semaphores.get(node_name)
        if semaphore is None:
            semaphore = self._semaphores[node_name] = PrioritySemaphore(lambda: self._most(node_name), self._wake)
        if not semaphore.admits(uid, key, priority):
            yield False
            return
        semaphore.keep(uid)
        try:
            yield True
        finally:
            self.cancel(uid)

    def cancel(self, uid: str) -> None:
        """Release the slot of this UID, or remove it from the queue."""
        node_name = self._nodes.pop(uid, "")
        semaphore = self._semaphores.get(node_name)
        if semaphore is None:
            return
        semaphore.release(uid)
        if semaphore.is_idle:
            del self._semaphores[node_name]


class RequestLimits:
    """The limits of one scheduler.

    :param in_flight: returns the number of pods that the scheduler works on concurrently
    :param wake: called with the key of a pod whose turn it is at a target
    :param admit: called with the key of a pod that may have candidates
    """

    def __init__(
        self, targets: Targets, in_flight: Callable[[], int], wake: Callable[[Key], None], admit: Callable[[Key], None]
    ) -> None:
        self._targets = targets
        self._in_flight = in_flight
        self.chaperons = TargetLimiter(self.most, wake)
        """Mode `ranked`: pods whose chaperon is being sent to a target."""
        self.changes = TargetLimiter(self.most, wake)
        """Mode `reserve`: pods with a chaperon that is being changed."""
        self.undecided = PrioritySemaphore(in_flight, admit)
        """Mode `reserve`: pods with candidates and no decision yet.

        Without this limit, all pods of a burst would have candidates in all targets before the first is claimed. Their
        reservations would expire meanwhile and have to be renewed.
        """
        self.members = asyncio.Semaphore(_GROUP_MEMBERS)
        """Members of groups whose steps are running."""

    def most(self, node_name: str) -> int:
        """Return the maximum number of concurrent requests of one kind to the target behind a virtual node."""
        target = self._targets.by_node(node_name)
        in_flight = self._in_flight()
        return max(1, in_flight // 4 if target is not None and target.slow else in_flight * 3 // 4)
