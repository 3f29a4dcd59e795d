"""Groups that start again as a whole (`group-on-failure: restart`): which run has lost a member, and who goes with it.
Pure.

A *run* is one start of a group. Its name is written on each member with the claim, so that a member that failed in an
earlier run, and whose pod is still there, is told from one of this run. What has been seen of a loss stays true: pods
that failed or are being deleted do not come back. So whoever finds a run half taken back takes back the rest.
"""

import math
from collections.abc import Sequence

from agent.scheduler.groups.members import Group, Member
from agent.scheduler.groups.turns import Timeouts


def lost(group: Group) -> tuple[str, str]:
    """The run that is to be taken back, and the member that it has lost; empty when none is.

    A run with as many members as start together, less those that are done, has lost nothing that it needs. In a
    namespace that is closed none is taken back: it would not come back.
    """
    if group.closed:
        return "", ""
    for run in sorted({member.run for member in group.members if member.run and _can_come_back(member)}):
        ours = [member for member in group.members if member.run == run]
        losses = [member.name for member in ours if _is_lost(member)]
        left = sum(member.live for member in ours)
        if run == group.memory.lost:
            return run, group.memory.loss
        if losses and left < group.asked - group.done:
            return run, min(losses)
    return "", ""


def to_delete(group: Group, run: str) -> tuple[str, ...]:
    """UIDs of the members that go for the run to start again."""
    return tuple(member.uid for member in group.members if member.run == run and _can_come_back(member))


def drain_until(group: Group, now: float, limits: Timeouts) -> float | None:
    """Until when pods of an earlier run are waited for: None when there are none, -inf when that time is over.

    On a node that is lost they never go: they are waited for as long as they may take, and as a turn may.
    """
    going = terminating(group)
    if not going:
        return None
    until = group.memory.drain_until
    if until is None:
        return now + max(member.grace for member in going) + limits.timeout
    return until if now < until else -math.inf


def terminating(group: Group) -> list[Member]:
    """Members of earlier runs that are being deleted and may still be at work."""
    return [member for member in group.members if member.going and member.run and member.node_name and not member.over]


def name(group: Group, core: Sequence[Member]) -> str:
    """The run that claims of members belong to: that of those that are claimed or bound, or else a new one."""
    placed = [member for member in group.members if member.live and (member.node_name or _claim(member))]
    if placed:
        return next((member.run for member in placed if member.run), "")
    return core[0].uid if core else ""


def _is_lost(member: Member) -> bool:
    return bool(member.node_name) and (member.over or member.going) and not member.done


def _can_come_back(member: Member) -> bool:
    """What has no controller would be gone for good."""
    return member.live and bool(member.owner)


def _claim(member: Member) -> str:
    return member.view.claim if member.view is not None else ""
