"""Whether a target accepts pods, judged by its responses to their PodChaperons. Pure, but for the clock it is given.

Some API servers answer every read and refuse every write: the disk of their etcd is full, an admission webhook is dead,
they have too much to do. In others the agent cannot create pods, for the same reasons. Pods then go elsewhere, and only
now and then one of them finds out whether that has ended. This is memory of one process that saves requests; each pod
remembers for itself where it was refused.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.kube.errors import NotFound, ServerError, StatusError, TooManyRequests, Unauthorized

ROW = 3
"""So many different pods in a row have to be refused before others of their namespace are spared the attempt."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 30.0
"""Between attempts: a target that is well again is known to be after this at most."""
TURN_SECONDS = 10.0
"""After that the turn of a pod that has not come to an attempt is another's."""


class Refusal(NamedTuple):
    """What a target that refuses pods has said."""

    reason: str
    """In one word."""
    namespace: str
    """Of the pods."""
    words: str


def concerns_all(error: StatusError) -> bool:
    """Whether a refusal is likely to meet every pod of a namespace, and not only what is in this one."""
    return isinstance(error, ServerError | TooManyRequests | Unauthorized | NotFound)


@dataclass
class _Known:
    """What is known of the pods of one namespace."""

    refused: set[str] = field(default_factory=set)
    """UIDs of pods refused since the last that was taken, until there are enough of them."""
    reason: str = ""
    words: str = ""
    """They stay while it refuses, so that pods that wait are not told anew with each attempt."""
    pause: float = 0.0
    """0: pods are not kept away."""
    until: float = 0.0
    turns: dict[bool, tuple[str, float]] = field(default_factory=dict)
    """UIDs of pods whose turn it is, and until when: of one that was refused there before, and of one that was not."""

    def has_turn(self, uid: str) -> bool:
        return any(holder == uid for holder, _ in self.turns.values())

    def rest(self, pause: float, now: float) -> None:
        self.pause, self.until = pause, now + pause
        self.turns.clear()


class RefusalBackoff:
    """The memory of one target.

    Of pods that are kept away, two at a time have a turn when the pause is over: one that the target has refused before
    and one that it has not, so that pods which it will never take do not stand in the way of the others.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._namespaces: dict[str, _Known] = {}
        self.epoch = 0
        """Grows whenever the pods of a namespace are kept away from now on, or no longer."""
        self.changed: Callable[[], None] = lambda: None
        """Called then."""

    def refused(self, namespace: str, uid: str, reason: str, words: str) -> None:
        """The target has refused a pod, for a reason that concerns all pods of its namespace."""
        known = self._namespaces.setdefault(namespace, _Known())
        if known.pause:
            if known.has_turn(uid):
                known.rest(min(2 * known.pause, LONGEST_PAUSE_SECONDS), self._now())
            return
        known.refused.add(uid)
        if len(known.refused) >= ROW:
            known.refused.clear()
            known.reason, known.words = reason, words
            known.rest(FIRST_PAUSE_SECONDS, self._now())
            self._tell()

    def accepted(self, namespace: str) -> None:
        """A scheduler of the target has taken up a pod."""
        known = self._namespaces.pop(namespace, None) if self._namespaces else None
        if known is not None and known.pause:
            self._tell()

    def refuses(self, namespace: str) -> str:
        """What the target says to pods of a namespace, empty when they are not kept away."""
        known = self._namespaces.get(namespace)
        return known.words if known is not None and known.pause else ""

    def admits(self, namespace: str, uid: str, *, before: bool) -> bool:
        """Whether a pod may try; one that is kept away takes the turn where it is free.

        :param before: whether the target has refused it before
        """
        known = self._namespaces.get(namespace)
        if known is None or not known.pause or known.has_turn(uid):
            return True
        now = self._now()
        holder = known.turns.get(before)
        if now < known.until or (holder is not None and now < holder[1]):
            return False
        known.turns[before] = (uid, now + TURN_SECONDS)
        return True

    def leave_turn(self, namespace: str, uid: str) -> None:
        """A pod goes nowhere, or elsewhere."""
        known = self._namespaces.get(namespace)
        if known is not None and known.turns:
            known.turns = {before: turn for before, turn in known.turns.items() if turn[0] != uid}

    @property
    def next_turn(self) -> float | None:
        """In how many seconds a pod that is kept away may try, None when none is."""
        left = [known.until - self._now() for known in self._namespaces.values() if known.pause]
        return max(0.0, min(left)) if left else None

    @property
    def refusal(self) -> Refusal | None:
        """What there is to tell of the target, None when it keeps no pods away."""
        namespace = min((namespace for namespace, known in self._namespaces.items() if known.pause), default=None)
        if namespace is None:
            return None
        known = self._namespaces[namespace]
        return Refusal(known.reason, namespace, known.words)

    def _tell(self) -> None:
        self.epoch += 1
        self.changed()
