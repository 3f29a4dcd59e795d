"""Renewals of lease fences: sent by a source, observed by a target. All times are from monotonic clocks.

In a source, the mover and feedback ask whether the fence has certainly stopped a pod whose target is
unreachable. In a target, the chaperon controller asks whether a chaperon may have a delegate.
"""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from agent.api.names import fencing
from agent.base.listeners import tell
from agent.kube.store import Key, Object
from agent.model import fence
from agent.model.fence import Seen

_KEPT, _LEASE = (f'"{key}"'.encode() for key in (fencing.ANNOTATION_KEPT, fencing.ANNOTATION_LEASE))

Bar = Literal["", "now", "ever"]
"""Whether a fence forbids a delegate: no (empty), until renewals are seen again, or forever."""


class SentRenewals:
    """Times of the last renewals, by virtual node and namespace. An earlier leader's count as sent at this
    process's start.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._sent: dict[Key, float] = {}
        self._under_way: Counter[Key] = Counter()
        self.refusals: dict[Key, str] = {}
        """Messages for users: why a target refuses the renewal of a Lease."""
        self.growing: set[Key] = set()
        """Leases that are about to get a longer term. Their target's promises count only after that."""
        self.noting: Counter[Key] = Counter()
        """Number of writes in progress that record a target's promise on proxy pods."""
        self.void: set[str] = set()
        """UIDs of pods whose recorded promise is void, even if the API server refused to remove it."""
        self._listeners: list[Callable[[Key], None]] = []

    @contextlib.contextmanager
    def sending(self, key: Key) -> Iterator[None]:
        """Context manager around one renewal. It counts as sent at the end of the request, answered or not."""
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._sent[key] = time.monotonic()
            self._under_way[key] -= 1

    def on_turn(self, listener: Callable[[Key], None]) -> None:
        """Register a listener: called with a place when the refusal or the term of its Lease changes."""
        self._listeners.append(listener)

    def refuse(self, key: Key, message: str) -> None:
        """Record why the target refuses to renew the Lease of a place; empty if it does not."""
        if message != self.refusals.get(key, ""):
            self.refusals[key] = message
            if not message:
                del self.refusals[key]
            tell(self._listeners, key)

    def grow(self, key: Key, *, grows: bool) -> None:
        """Record whether the Lease of a place is about to get a longer term."""
        if grows != (key in self.growing):
            (self.growing.add if grows else self.growing.discard)(key)
            tell(self._listeners, key)

    def forget(self, key: Key) -> None:
        """Forget a Lease that is no longer renewed, except for the time of its last renewal."""
        self.refusals.pop(key, None)
        self.growing.discard(key)

    @contextlib.contextmanager
    def noting_at(self, key: Key) -> Iterator[None]:
        """Context manager around a write that records a promise on a pod of a place."""
        self.noting[key] += 1
        try:
            yield
        finally:
            self.noting[key] -= 1
            if not self.noting[key]:
                del self.noting[key]

    def ago(self, key: Key) -> float:
        """Return the seconds since this process sent the last renewal; infinite if it has sent none."""
        return time.monotonic() - self._sent.get(key, -math.inf)

    def left(self, pod: Object, margin: float) -> float | None:
        """Return the seconds until the fence has certainly stopped a bound pod; None if it is unknown or not fenced."""
        if not pod.node_name or pod.uid in self.void or not is_noted(pod):
            return None
        seconds = fence.kept(pod.annotations.get(fencing.ANNOTATION_KEPT))
        if seconds is None:
            return None
        key, now = (pod.node_name, pod.namespace), time.monotonic()
        since = now if self._under_way[key] else self._sent.get(key, self._began)
        return fence.left(seconds, since, margin, now)


def is_noted(pod: Object) -> bool:
    """Return True if a proxy pod may record that its target keeps its fence. Cheap: it may be True without a record."""
    return _KEPT in pod.raw


def lease_of(chaperon: Object) -> str:
    """Return the name of the Lease that fences a chaperon; empty if it has no fence."""
    return chaperon.annotations.get(fencing.ANNOTATION_LEASE, "") if _LEASE in chaperon.raw else ""


class SeenRenewals:
    """Renewals seen, by namespace and name of the Lease. A Lease that was never seen counts as expired."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = clock
        """Monotonic clock in seconds that also runs during suspend."""
        self._seen: dict[Key, Seen] = {}
        self._stopped: set[str] = set()
        """UIDs of chaperons that a fence has stopped, even if the API server refused to record it."""
        self._listeners: list[Callable[[Key], None]] = []

    def get(self, key: Key) -> Seen | None:
        """Return the last renewal seen of a Lease; None if none was."""
        return self._seen.get(key)

    def leases(self) -> list[Key]:
        """Return the Leases with a renewal that was seen."""
        return list(self._seen)

    def note(self, key: Key, seen: Seen | None) -> None:
        """Record the last renewal seen of a Lease; None to forget the Lease."""
        if seen is None:
            self._seen.pop(key, None)
        else:
            self._seen[key] = seen

    def left(self, key: Key) -> float:
        """Return the seconds for which delegates that a Lease fences may still run."""
        seen = self._seen.get(key)
        return seen.left(self.clock()) if seen is not None else 0.0

    def on_stop(self, listener: Callable[[Key], None]) -> None:
        """Register a listener: called with the key of each chaperon that its fence stops."""
        self._listeners.append(listener)

    def stop(self, chaperon: Object) -> None:
        """Record that its fence has stopped a chaperon. A later renewal does not undo that."""
        if chaperon.uid not in self._stopped:
            self._stopped.add(chaperon.uid)
            tell(self._listeners, chaperon.key)

    def forget(self, uid: str) -> None:
        """Forget a chaperon that has been deleted."""
        self._stopped.discard(uid)

    def bar(self, chaperon: Object) -> Bar:
        """Return whether a chaperon may have no delegate now, or forever; empty if it may have one."""
        lease = lease_of(chaperon)
        if not lease:
            return ""
        if chaperon.uid in self._stopped or fencing.ANNOTATION_FENCED in chaperon.annotations:
            return "ever"
        return "" if self.left((chaperon.namespace, lease)) > 0 else "now"


def clock() -> float:
    """Return the seconds of a monotonic clock that also runs during suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Fences:
    """Renewals sent by this cluster as a source, and seen by it as a target."""

    def __init__(self) -> None:
        self.sent = SentRenewals()
        self.seen = SeenRenewals()
