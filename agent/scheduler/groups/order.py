"""Turns: the order of the groups of one source, and the pause after a turn without a start. Pure."""

import hashlib
import math
from dataclasses import dataclass

import msgspec

Key = tuple[str, str]
"""Namespace and name of a group."""


@dataclass(frozen=True)
class Timeouts:
    """Settings, in seconds."""

    timeout: float = 30.0
    """Time for which a group collects reservations before it releases all of them."""
    hopeless: float = 5.0
    """As `timeout`, if every target has refused one member and another group waits."""
    first_pause: float = 2.0
    longest_pause: float = 60.0


@dataclass(frozen=True)
class GroupMemory:
    """State of a group that only this process holds; losing it costs time only. Times are of the monotonic clock."""

    queued: float
    """When the group was seen first, or last released its reservations."""
    since: float | None = None
    """When its current turn began; None if it has no turn."""
    until: float = -math.inf
    """The end of its pause."""
    tries: int = 0
    message: str = ""
    """Reason why the last turn ended before all pods of the group had started."""
    lost: str = ""
    """The run whose members are being deleted."""
    loss: str = ""
    """The member that this run has lost; it may have been deleted before the others are."""
    drain_until: float | None = None
    """Time until which to wait for pods of an earlier run; None if there are none, -inf if it has passed."""


class Contender(msgspec.Struct, frozen=True):
    """State of one group that the decisions for other groups of the source need."""

    key: Key
    wants: bool
    """True if it is complete and has not begun."""
    claims: bool
    holds: bool
    """True if it has the turn, or candidates left from a turn before the agent restarted."""
    targets: frozenset[str]
    """Virtual nodes with a candidate of the group, or of targets that could get one."""
    priority: int
    queued: float
    created: str
    until: float

    def order(self) -> tuple[bool, bool, int, float, str, Key]:
        """Sort key of groups; the smallest comes first.

        A group keeps its turn until that ends. Groups are ordered by priority, then by time in the queue. That
        time restarts after a failed turn.
        """
        return (not self.claims, not self.holds, -self.priority, self.queued, self.created, self.key)


def pause(key: Key, uid: str, tries: int, limits: Timeouts) -> float:
    """Return the pause in seconds after this many unsuccessful turns.

    The pause doubles each time and is multiplied by a factor from 0.5 to 1.5. The factor is a hash of the pod, so that
    groups of different sources that failed together do not retry together.
    """
    full: float = min(limits.longest_pause, limits.first_pause * 2.0 ** min(tries, 16))
    digest = hashlib.sha256(f"{key[0]}/{key[1]}/{uid}/{tries}".encode()).digest()
    return full * (0.5 + int.from_bytes(digest[:4]) / 2**32)
