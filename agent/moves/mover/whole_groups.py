"""Decides whether all pods of a group may move at once, to be restarted together in another target. Pure.

The mover evicts one pod. The agent's scheduler then restarts the rest of the group (`group-on-failure: restart`). So
a move of a group is a single write, and no leader that dies can leave half of it behind. A group without this
annotation stays: its owner would replace the evicted pod alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.api import names
from agent.api.names import moves
from agent.moves.mover.view import Cause, Together, until
from agent.ranking.snapshot import PodTemplate

ONE_OF_A_KIND = ("StatefulSet", "Job")
"""Owners whose pods must not run twice at the same time."""
_RESTARTS = f"{names.SHORT_PREFIX}{names.POD_GROUP_ON_FAILURE}={names.RESTART}"
_EVICTED = f"{names.SHORT_PREFIX}{moves.MOVE}={moves.EVICT}"


@dataclass(frozen=True)
class Member:
    """A pod of a group."""

    name: str
    kind: str = "Job"
    """Kind of its controller; empty if it has none."""
    node: str = ""
    """Virtual node that it is bound to; empty if none."""
    cause: Cause = ""
    deleting: bool = False
    phase: str = "Running"
    answers: bool = True
    certified: bool = False
    fence: float | None = None
    """Seconds until the fence has certainly stopped it, as in `Pod`."""
    move: str = ""
    size: str = ""
    policy: str = ""
    on_failure: str = ""
    claim: str = ""
    """Name of its claim whose volume is in its target; empty if it has none."""
    wanted: PodTemplate | None = None
    """Its requests and constraints; None if they are unreadable or not needed."""
    targets: tuple[str, ...] = ()
    """Virtual nodes of the targets that admit it; its own is included unless it is misplaced."""

    @property
    def lives(self) -> bool:
        """Whether it is neither being deleted nor ended."""
        return not self.deleting and self.phase not in ("Succeeded", "Failed")


def together(group: str, members: Sequence[Member], room: Callable[[], str]) -> Together:
    """Decide about a group with a misplaced pod.

    :param room: returns why the other targets lack capacity for the group, empty if they have it; called only if
        nothing else keeps the group
    """
    living = [member for member in members if member.lives]
    if unasked := next((member.name for member in living if not _asks(member)), ""):
        all_say = f"all of them say {_RESTARTS} and {_EVICTED}, and something makes them again"
        why = f"the pods of a group move only together, and where {all_say}: not so of pod {unasked}"
        return Together("Held", why, unasked=True)
    if len({(member.size, member.policy) for member in living}) > 1 or not _size(living):
        return Together("Held", f"the pods of group {group} do not agree on what it is", unasked=True)
    if any(member.deleting and member.node for member in members) or _present(members) < _size(living):
        return Together(waits=True)
    for member in living:
        kept = _keeps(member)
        if kept is not None:
            return kept
    lacking = room()
    return _kept("NoRoom", lacking) if lacking else Together()


def _kept(reason: Literal["Held", "NoRoom", "DataElsewhere", "IdentityMayRun"], message: str) -> Together:
    return Together(reason, message)


def _asks(member: Member) -> bool:
    return bool(member.kind) and member.on_failure == names.RESTART and member.move == moves.EVICT


def _size(living: Sequence[Member]) -> int:
    text = living[0].size if living else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _present(members: Sequence[Member]) -> int:
    """Return the number of members that have a virtual node or have succeeded."""
    return sum((member.lives and bool(member.node)) or member.phase == "Succeeded" for member in members)


def _keeps(member: Member) -> Together | None:
    """Return why one member keeps the whole group in place; None if it does not."""
    if not member.cause:
        return None if member.answers else _kept("Held", f"the target of pod {member.name} does not answer")
    if member.claim:
        return _kept("DataElsewhere", f"the volume of claim {member.claim} of pod {member.name} is there")
    if member.cause != "Lost" and not member.answers:
        return _kept("Held", f"the target of pod {member.name} does not answer")
    if member.kind in ONE_OF_A_KIND and not (member.answers or member.certified or member.fence == 0):
        where = f"pod {member.name} of its group may still run in a target that does not answer"
        return _kept("IdentityMayRun", f"{where}: {until(member.fence)}")
    return None
