"""Fences: the renewals that this cluster sends as a source, and those that it sees as a target, by clocks never set.

In a source the mover and feedback ask whether nothing of a pod runs any more in a target that is cut off. In a target
the room that makes delegates asks whether it may.
"""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from agent.api.names import fencing
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

    @contextlib.contextmanager
    def sending(self, key: Key) -> Iterator[None]:
        """A renewal may be sent within: it counts from when it is given up, or answered."""
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._sent[key] = time.monotonic()
            self._under_way[key] -= 1

    def ago(self, key: Key) -> float:
        """How many seconds ago this process has sent the last one, infinite if it has not."""
        return time.monotonic() - self._sent.get(key, -math.inf)

    def left(self, pod: Object, margin: float) -> float | None:
        """In how many seconds nothing of a bound pod runs any more if its target is cut off; None: unknown."""
        if not pod.node_name or _KEPT not in pod.raw:
            return None
        seconds = fence.kept(pod.annotations.get(fencing.ANNOTATION_KEPT))
        if seconds is None:
            return None
        key, now = (pod.node_name, pod.namespace), time.monotonic()
        since = now if self._under_way[key] else self._sent.get(key, self._began)
        return fence.left(seconds, since, margin, now)


def lease_of(chaperon: Object) -> str:
    """Name of the Lease that a chaperon is fenced by, empty for none."""
    return chaperon.annotations.get(fencing.ANNOTATION_LEASE, "") if _LEASE in chaperon.raw else ""


class SeenRenewals:
    """When renewals were seen, by namespace and name of the Lease; one that was never seen counts as expired."""

    def __init__(self) -> None:
        self._seen: dict[Key, Seen] = {}

    def get(self, key: Key) -> Seen | None:
        """What was seen of a Lease."""
        return self._seen.get(key)

    def note(self, key: Key, seen: Seen | None) -> None:
        """This is what was seen last; None: nobody asks any more."""
        if seen is None:
            self._seen.pop(key, None)
        else:
            self._seen[key] = seen

    def left(self, key: Key) -> float:
        """For how many seconds delegates that this Lease fences may run yet."""
        seen = self._seen.get(key)
        return seen.left(clock()) if seen is not None else 0.0

    def bar(self, chaperon: Object) -> Bar:
        """Whether a chaperon may have no delegate."""
        lease = lease_of(chaperon)
        if not lease:
            return ""
        if fencing.ANNOTATION_FENCED in chaperon.annotations:
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
