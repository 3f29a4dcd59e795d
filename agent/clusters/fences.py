"""Fences: the renewals that this cluster sends as a source, and those that it sees as a target, by clocks never set.

In a source the mover and feedback ask whether nothing of a pod runs any more in a target that is cut off. In a target
the room that makes delegates asks whether it may.
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
"""Whether a chaperon may have no delegate: until renewals are seen, or never again."""


class SentRenewals:
    """When renewals were sent, by virtual node and namespace; those of other leaders count as sent at our start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._sent: dict[Key, float] = {}
        self._under_way: Counter[Key] = Counter()
        self.refusals: dict[Key, str] = {}
        """Why a target does not let its Lease be renewed, for the user."""
        self.growing: set[Key] = set()
        """Leases that are to get a longer term: no promise counts until they have it."""
        self.noting: Counter[Key] = Counter()
        """Writes under way that note a promise on a proxy pod."""
        self.void: set[str] = set()
        """UIDs of pods whose note is void, though the API server may have refused to remove it."""
        self._listeners: list[Callable[[Key], None]] = []

    @contextlib.contextmanager
    def sending(self, key: Key) -> Iterator[None]:
        """A renewal may be sent within: it counts from when it is given up, or answered."""
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._sent[key] = time.monotonic()
            self._under_way[key] -= 1

    def on_turn(self, listener: Callable[[Key], None]) -> None:
        """Call with a place whose Lease is refused, or not any longer, or changes its term."""
        self._listeners.append(listener)

    def refuse(self, key: Key, message: str) -> None:
        """Record why the Lease of a place cannot be renewed; empty if it can."""
        if message != self.refusals.get(key, ""):
            self.refusals[key] = message
            if not message:
                del self.refusals[key]
            tell(self._listeners, key)

    def grow(self, key: Key, *, grows: bool) -> None:
        """Record whether the Lease of a place is to get a longer term than it has."""
        if grows != (key in self.growing):
            (self.growing.add if grows else self.growing.discard)(key)
            tell(self._listeners, key)

    def forget(self, key: Key) -> None:
        """Forget what was recorded of a Lease that is not renewed any longer. When it was sent last still counts."""
        self.refusals.pop(key, None)
        self.growing.discard(key)

    @contextlib.contextmanager
    def noting_at(self, key: Key) -> Iterator[None]:
        """Context in which a note is written on a pod of a place."""
        self.noting[key] += 1
        try:
            yield
        finally:
            self.noting[key] -= 1
            if not self.noting[key]:
                del self.noting[key]

    def ago(self, key: Key) -> float:
        """How many seconds ago this process has sent the last one, infinite if it has not."""
        return time.monotonic() - self._sent.get(key, -math.inf)

    def left(self, pod: Object, margin: float) -> float | None:
        """In how many seconds nothing of a bound pod runs any more if its target is cut off; None: unknown."""
        if not pod.node_name or pod.uid in self.void or not is_noted(pod):
            return None
        seconds = fence.kept(pod.annotations.get(fencing.ANNOTATION_KEPT))
        if seconds is None:
            return None
        key, now = (pod.node_name, pod.namespace), time.monotonic()
        since = now if self._under_way[key] else self._sent.get(key, self._began)
        return fence.left(seconds, since, margin, now)


def is_noted(pod: Object) -> bool:
    """Return True if a proxy pod may say that its target keeps its fence. Cheap; may err on the side of True."""
    return _KEPT in pod.raw


def lease_of(chaperon: Object) -> str:
    """Name of the Lease that a chaperon is fenced by, empty for none."""
    return chaperon.annotations.get(fencing.ANNOTATION_LEASE, "") if _LEASE in chaperon.raw else ""


class SeenRenewals:
    """When renewals were seen, by namespace and name of the Lease; one that was never seen counts as expired."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = clock
        """Seconds of a clock that is never set, and that goes on while the machine sleeps."""
        self._seen: dict[Key, Seen] = {}
        self._stopped: set[str] = set()
        """UIDs of chaperons whose fence has fallen, whether the API server lets that be written or not."""
        self._listeners: list[Callable[[Key], None]] = []

    def get(self, key: Key) -> Seen | None:
        """What was seen of a Lease."""
        return self._seen.get(key)

    def leases(self) -> list[Key]:
        """Return the Leases of which something was seen."""
        return list(self._seen)

    def note(self, key: Key, seen: Seen | None) -> None:
        """This is what was seen last; None: nobody asks any more."""
        if seen is None:
            self._seen.pop(key, None)
        else:
            self._seen[key] = seen

    def left(self, key: Key) -> float:
        """For how many seconds delegates that this Lease fences may run yet."""
        seen = self._seen.get(key)
        return seen.left(self.clock()) if seen is not None else 0.0

    def on_stop(self, listener: Callable[[Key], None]) -> None:
        """Call with the key of each chaperon whose delegate is stopped."""
        self._listeners.append(listener)

    def stop(self, chaperon: Object) -> None:
        """Record that the fence of a chaperon has fallen: a late renewal does not put it up again."""
        if chaperon.uid not in self._stopped:
            self._stopped.add(chaperon.uid)
            tell(self._listeners, chaperon.key)

    def forget(self, uid: str) -> None:
        """Forget a chaperon that has been deleted."""
        self._stopped.discard(uid)

    def bar(self, chaperon: Object) -> Bar:
        """Whether a chaperon may have no delegate."""
        lease = lease_of(chaperon)
        if not lease:
            return ""
        if chaperon.uid in self._stopped or fencing.ANNOTATION_FENCED in chaperon.annotations:
            return "ever"
        return "" if self.left((chaperon.namespace, lease)) > 0 else "now"


def clock() -> float:
    """Seconds that also pass while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Fences:
    """Renewals that this cluster sends as a source, and those that it sees as a target."""

    def __init__(self) -> None:
        self.sent = SentRenewals()
        self.seen = SeenRenewals()
