"""Whose turn it is: the order of the groups of one source, and how long one that got nothing stays away. Pure."""

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
    """How long a group collects reservations before it gives all of them back."""
    hopeless: float = 5.0
    """The same when every target has refused a member and another group waits."""
    first_pause: float = 2.0
    longest_pause: float = 60.0


@dataclass(frozen=True)
class GroupMemory:
    """What the process knows of a group; losing it costs time, nothing else. Times are of a clock that is never set."""

    queued: float
    """When the group was seen first, or gave its reservations back last."""
    since: float | None = None
    """Since when it has had the turn, None when it has not."""
    until: float = -math.inf
    """It stays away until then."""
    tries: int = 0
    message: str = ""
    """Why the last turn ended without a start."""
    lost: str = ""
    """The run that is being taken back."""
    loss: str = ""
    """The member that this run had lost: it may be gone before all others are."""
    drain_until: float | None = None
    """Until when pods of an earlier run are waited for: None when there are none, -inf when that time is over."""


class Contender(msgspec.Struct, frozen=True):
    """What other groups of the source have to know of one."""

    key: Key
    wants: bool
    """It is complete and has not begun."""
    claims: bool
    holds: bool
    """It has the turn, or candidates from a turn that nobody remembers."""
    targets: frozenset[str]
    """Virtual nodes where it has candidates or would have some."""
    priority: int
    queued: float
    created: str
    until: float

    def order(self) -> tuple[bool, bool, int, float, str, Key]:
        """Sorts groups: the least comes first.

        A turn is not taken away from one that has it: it ends by itself. Priority, then age; who got nothing goes
        behind those that wait.
        """
        return (not self.claims, not self.holds, -self.priority, self.queued, self.created, self.key)


def pause(key: Key, uid: str, tries: int, limits: Timeouts) -> float:
    """Seconds that a group stays away after so many tries in vain.

    Twice as long each time, and between a half and one and a half of that: the share follows from the pod, so that
    groups of different sources that failed together do not come back together.
    """
    full: float = min(limits.longest_pause, limits.first_pause * 2.0 ** min(tries, 16))
    digest = hashlib.sha256(f"{key[0]}/{key[1]}/{uid}/{tries}".encode()).digest()
    return full * (0.5 + int.from_bytes(digest[:4]) / 2**32)
