"""Whether the pods of a group may go, all of them at once, to start again as one elsewhere; or what keeps all. Pure.

It is the scheduler that takes back the rest of a group once one of its pods is gone, and has it start again when all
are (`group-on-failure: restart`): so one eviction is all that a move of a group is, and no leader that is killed can
leave half of it behind. A group that does not say so would have that pod replaced alone, and stays.
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
    """Of what controls it, empty for nothing."""
    node: str = ""
    """The virtual node that it is bound to."""
    cause: Cause = ""
    deleting: bool = False
    phase: str = "Running"
    answers: bool = True
    certified: bool = False
    fence: float | None = None
    """In how many seconds its target has stopped it, as in `Pod`."""
    move: str = ""
    size: str = ""
    policy: str = ""
    on_failure: str = ""
    claim: str = ""
    """The claim whose volume is in the target that it is in, empty if it has none."""
    wanted: PodTemplate | None = None
    """What it asks of a target, None where that cannot be read."""
    targets: tuple[str, ...] = ()
    """Virtual nodes of the targets that it may go to, the one that it is in among them unless it is misplaced."""

    @property
    def lives(self) -> bool:
        """Whether it takes part."""
        return not self.deleting and self.phase not in ("Succeeded", "Failed")


def together(group: str, members: Sequence[Member], room: Callable[[], str]) -> Together:
    """What is next for a group of which a pod is misplaced.

    :param room: says why there is not room for all of it elsewhere, empty if there is; asked only if all may go
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
    """How many are at work, or have done their part."""
    return sum((member.lives and bool(member.node)) or member.phase == "Succeeded" for member in members)


def _keeps(member: Member) -> Together | None:
    """What of one of them keeps all."""
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
