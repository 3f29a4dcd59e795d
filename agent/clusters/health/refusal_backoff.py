"""Backoff of pods that a target refuses, judged by its responses to their PodChaperons. Pure, but for the given clock.

Some API servers answer every read and refuse every write: the disk of their etcd is full, an admission webhook
is unavailable, or they are overloaded. In other clusters the agent cannot create pods, for the same reasons.
Pods then use other targets, and only occasionally one of them tries whether the refusals have ended. This
memory of one process saves requests; each pod records separately which targets refused it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.kube.errors import NotFound, ServerError, StatusError, TooManyRequests, Unauthorized

ROW = 3
"""Different pods refused in a row before all pods of their namespace back off."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 30.0
"""Longest pause in seconds between attempts, and so until a recovered target is used again."""
TURN_SECONDS = 10.0
"""Seconds after which the turn of a pod that has made no attempt passes to another pod."""


class Refusal(NamedTuple):
    """Refusal of the pods of one namespace by a target."""

    reason: str
    """Reason in one word."""
    namespace: str
    """Namespace of the pods."""
    words: str


def concerns_all(error: StatusError) -> bool:
    """Return whether a refusal probably concerns every pod of a namespace, not only the content of this one."""
    return isinstance(error, ServerError | TooManyRequests | Unauthorized | NotFound)


@dataclass
class _Known:
    """Refusals of the pods of one namespace."""

    refused: set[str] = field(default_factory=set)
    """UIDs of pods refused since the last accepted one, until there are `ROW` of them."""
    reason: str = ""
    words: str = ""
    """Message of the refusal, unchanged while it lasts: waiting pods get no new event with each attempt."""
    pause: float = 0.0
    """Seconds between attempts; 0 if pods do not back off."""
    until: float = 0.0
    turns: dict[bool, tuple[str, float]] = field(default_factory=dict)
    """UID of the pod that may try and when its turn ends, by whether the target has refused that pod before."""

    def has_turn(self, uid: str) -> bool:
        return any(holder == uid for holder, _ in self.turns.values())

    def rest(self, pause: float, now: float) -> None:
        self.pause, self.until = pause, now + pause
        self.turns.clear()


class RefusalBackoff:
    """Refusals by one target.

    After a pause two pods may try: one that the target has refused before and one that it has not. So pods that
    it will never accept do not block the others.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._namespaces: dict[str, _Known] = {}
        self.epoch = 0
        """Counter that grows whenever the pods of a namespace begin or cease to back off."""
        self.changed: Callable[[], None] = lambda: None
        """Listener called when `epoch` grows."""

    def refused(self, namespace: str, uid: str, reason: str, words: str) -> None:
        """Record a refusal of a pod for a reason that concerns all pods of its namespace."""
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
        """Record that a scheduler of the target has accepted a pod."""
        known = self._namespaces.pop(namespace, None) if self._namespaces else None
        if known is not None and known.pause:
            self._tell()

    def refuses(self, namespace: str) -> str:
        """Return the target's message to pods of a namespace, empty if they do not back off."""
        known = self._namespaces.get(namespace)
        return known.words if known is not None and known.pause else ""

    def admits(self, namespace: str, uid: str, *, before: bool) -> bool:
        """Return whether a pod may try; a pod that backs off takes the turn if that is free.

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
        """Give the turn of a pod back: it is not sent, or it is sent to another target."""
        known = self._namespaces.get(namespace)
        if known is not None and known.turns:
            known.turns = {before: turn for before, turn in known.turns.items() if turn[0] != uid}

    @property
    def next_turn(self) -> float | None:
        """Return the seconds until a pod that backs off may try, None if no pod backs off."""
        left = [known.until - self._now() for known in self._namespaces.values() if known.pause]
        return max(0.0, min(left)) if left else None

    @property
    def refusal(self) -> Refusal | None:
        """Return the refusal to report for the target, None if no pods back off."""
        namespace = min((namespace for namespace, known in self._namespaces.items() if known.pause), default=None)
        if namespace is None:
            return None
        known = self._namespaces[namespace]
        return Refusal(known.reason, namespace, known.words)

    def _tell(self) -> None:
        self.epoch += 1
        self.changed()
