"""Limits on the number of requests to targets at the same time.

A target that is slow, or has just gone silent, must not hold all those who work on pods: each limit is one per target,
whatever exceeds it waits, and whoever waits is woken when it may go.
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
"""Whoever is admitted and has not begun, or not ended, after that makes room for the next."""

_GROUP_MEMBERS = 32
"""Members of groups whose next steps are taken at the same time."""

K = TypeVar("K", bound=Hashable)


class PrioritySemaphore(Generic[K]):
    """Priority semaphore: N admitted; the waiter of highest priority is next, of these the first.

    :param size: N, asked whenever somebody comes or goes
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
        """Whether this one may begin now; if not, it is woken when it may."""
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
        """One that is admitted has begun, and stays admitted until it is released, however long that takes."""
        self._admitted[uid].cancel()

    @property
    def is_idle(self) -> bool:
        """Whether nobody is admitted or waits."""
        return not self._admitted and not self._waiting

    def release(self, uid: str) -> None:
        """This one has ended, or will not begin."""
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
    """Target limiter: at most N requests of one kind wait for each target to answer; others wait for their turn.

    :param most: N, by virtual node
    :param wake: called with the key of a waiter whose turn it is
    """

    def __init__(self, most: Callable[[str], int], wake: Callable[[K], None]) -> None:
        self._most = most
        self._wake = wake
        self._semaphores: dict[str, PrioritySemaphore[K]] = {}
        self._nodes: dict[str, str] = {}
        """UIDs to the virtual node whose target they ask, or wait for."""

    @contextlib.contextmanager
    def slot(self, node_name: str, uid: str, key: K, priority: int) -> Iterator[bool]:
        """Whether it is this one's turn at the target behind a virtual node, which then lasts as long as this context.

        Else it waits for that target, and for no other.
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
        """This one asks no target, or another one."""
        node_name = self._nodes.pop(uid, "")
        semaphore = self._semaphores.get(node_name)
        if semaphore is None:
            return
        semaphore.release(uid)
        if semaphore.is_idle:
            del self._semaphores[node_name]


class RequestLimits:
    """The limits of one scheduler.

    :param in_flight: how many pods it works on at the same time
    :param wake: called with the key of a pod whose turn it is at a target
    :param admit: called with the key of a pod that may have candidates
    """

    def __init__(
        self, targets: Targets, in_flight: Callable[[], int], wake: Callable[[Key], None], admit: Callable[[Key], None]
    ) -> None:
        self._targets = targets
        self._in_flight = in_flight
        self.chaperons = TargetLimiter(self.most, wake)
        """Mode `ranked`: pods whose chaperon is on its way to a target."""
        self.changes = TargetLimiter(self.most, wake)
        """Mode `reserve`: pods of which a chaperon is being changed."""
        self.undecided = PrioritySemaphore(in_flight, admit)
        """Mode `reserve`: pods that have candidates and no decision yet.

        Otherwise all pods of a burst would have candidates everywhere before the first is claimed, reservations run out
        meanwhile, and are made again.
        """
        self.members = asyncio.Semaphore(_GROUP_MEMBERS)
        """Members of groups whose steps are under way."""

    def most(self, node_name: str) -> int:
        """How many requests of one kind may wait for the target behind a virtual node."""
        target = self._targets.by_node(node_name)
        in_flight = self._in_flight()
        return max(1, in_flight // 4 if target is not None and target.slow else in_flight * 3 // 4)
