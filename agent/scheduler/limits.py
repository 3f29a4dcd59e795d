"""How many pods may be at something at once: what has begun ends before more is begun.

In mode `reserve`, being without a decision: otherwise all pods of a burst have candidates in all targets before the
first is claimed, reservations run out meanwhile, and are made again.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable, Iterator

from agent.clusters.target import Target
from agent.kube.store import Key, Object

SECONDS = 5.0
"""After that nobody waits for a pod that has a place: in mode `reserve` it keeps its candidates."""


class PrioritySemaphore:
    """So many places; `wake` is called with the key of a pod that has got one of them.

    A place that has become free goes to the pod of the highest priority that waits, and of these to the first.
    """

    def __init__(self, places: Callable[[], int], wake: Callable[[Key], None], seconds: float = SECONDS) -> None:
        self._places = places
        self._seconds = seconds
        self._wake = wake
        self._inside: dict[str, asyncio.TimerHandle] = {}
        self._waiting: dict[str, Key] = {}
        self._line: list[tuple[int, int, str]] = []
        self._arrivals = itertools.count()

    def admits(self, pod: Object) -> bool:
        """Whether a pod may begin now; if not, it is woken when it may."""
        if pod.uid in self._inside:
            return True
        if len(self._inside) < self._places():
            self._enter(pod.uid)
            return True
        if pod.uid not in self._waiting:
            self._waiting[pod.uid] = pod.key
            heapq.heappush(self._line, (-pod.priority, next(self._arrivals), pod.uid))
        return False

    def stay(self, uid: str) -> None:
        """A pod that has a place keeps it until it leaves, however long that takes."""
        self._inside[uid].cancel()

    @property
    def deserted(self) -> bool:
        """Whether nobody has a place or waits for one."""
        return not self._inside and not self._waiting

    def leave(self, uid: str) -> None:
        """A pod has ended, or will not begin."""
        self._waiting.pop(uid, None)
        timer = self._inside.pop(uid, None)
        if timer is None:
            return
        timer.cancel()
        while self._line and len(self._inside) < self._places():
            _, _, first = heapq.heappop(self._line)
            key = self._waiting.get(first)
            if key is not None:
                self._enter(first)
                self._wake(key)

    def _enter(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._inside[uid] = asyncio.get_running_loop().call_later(self._seconds, self.leave, uid)


class TargetLimiter:
    """A line before each target; `wake` is called with the key of a pod whose turn it is.

    :param most: how many pods may wait for the target behind a virtual node at once
    """

    def __init__(self, most: Callable[[str], int], wake: Callable[[Key], None]) -> None:
        self._most = most
        self._wake = wake
        self._lines: dict[str, PrioritySemaphore] = {}
        self._chosen: dict[str, str] = {}
        """UIDs of pods in a line to its virtual node."""

    @contextlib.contextmanager
    def turn(self, pod: Object, target: Target) -> Iterator[bool]:
        """Whether it is the pod's turn at a target, which then lasts as long as this context.

        Else the pod stands in line there, and in no other.
        """
        node = target.node_name
        if self._chosen.get(pod.uid, node) != node:
            self.leave(pod.uid)
        self._chosen[pod.uid] = node
        line = self._lines.get(node)
        if line is None:
            line = self._lines[node] = PrioritySemaphore(lambda: self._most(node), self._wake)
        if not line.admits(pod):
            yield False
            return
        line.stay(pod.uid)
        try:
            yield True
        finally:
            self.leave(pod.uid)

    def leave(self, uid: str) -> None:
        """A pod goes nowhere, or elsewhere."""
        node = self._chosen.pop(uid, "")
        line = self._lines.get(node)
        if line is None:
            return
        line.leave(uid)
        if line.deserted:
            del self._lines[node]
