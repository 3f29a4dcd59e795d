"""How many pods of mode `ranked` may wait for one target to answer.

A target that is slow, or has just gone silent, must not hold all those who work on pods. The others stand in line, and
keep their place in it.
"""

import contextlib
from collections.abc import Callable, Iterator

from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.scheduler.turnstile import Turnstile


class Lines:
    """A line before each target; `wake` is called with the key of a pod whose turn it is.

    :param most: how many pods may wait for the target behind a virtual node at once
    """

    def __init__(self, most: Callable[[str], int], wake: Callable[[Key], None]) -> None:
        self._most = most
        self._wake = wake
        self._lines: dict[str, Turnstile] = {}
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
            line = self._lines[node] = Turnstile(lambda: self._most(node), self._wake)
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
