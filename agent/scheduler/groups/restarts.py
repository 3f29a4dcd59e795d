"""Restarts of whole groups (`group-on-failure: restart`): which run lost a member, and which members to delete. Pure.

A *run* is one start of a group. The claim writes its name on each member, which distinguishes a pod that failed in an
earlier run from a pod of this run. Losses are permanent: pods that failed or are being deleted do not return. A new
leader that finds a run half deleted therefore deletes the rest.
"""

import math
from collections.abc import Sequence

from agent.scheduler.groups.members import Group, Member
from agent.scheduler.groups.order import Timeouts


def lost(group: Group) -> tuple[str, str]:
    """Return the run to delete and the member that it lost; both empty if no run is to be deleted.

    A run survives losses while it has enough live members: the group size less the members that are done.
    In a closed namespace no run is deleted, as it could not start again.
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
    """Return the UIDs of the members to delete so that the run can start again."""
    return tuple(member.uid for member in group.members if member.run == run and _can_come_back(member))


def drain_until(group: Group, now: float, limits: Timeouts) -> float | None:
    """Return the time until which to wait for pods of an earlier run; None if there are none, -inf if it has passed.

    Pods on a lost node never terminate: the wait is limited to their grace period plus the timeout of a turn.
    """
    going = terminating(group)
    if not going:
        return None
    until = group.memory.drain_until
    if until is None:
        return now + max(member.grace for member in going) + limits.timeout
    return until if now < until else -math.inf


def terminating(group: Group) -> list[Member]:
    """Return the members of earlier runs that are being deleted and may still be running."""
    return [member for member in group.members if member.going and member.run and member.node_name and not member.over]


def name(group: Group, core: Sequence[Member]) -> str:
    """Return the run that new claims belong to: that of the claimed or bound members, or else a new run."""
    placed = [member for member in group.members if member.live and (member.node_name or _claim(member))]
    if placed:
        return next((member.run for member in placed if member.run), "")
    return core[0].uid if core else ""


def _is_lost(member: Member) -> bool:
    return bool(member.node_name) and (member.over or member.going) and not member.done


def _can_come_back(member: Member) -> bool:
    """Return True if a controller recreates the pod after its deletion."""
    return member.live and bool(member.owner)


def _claim(member: Member) -> str:
    return member.view.claim if member.view is not None else ""
