"""All or nothing: when the pods of a group may have candidates, be claimed and be allowed to start. Pure.

A group is the pods of one namespace with the same `multicluster/group`. Its first `group-size` live members (the core)
start together; further members follow. The group collects reservations, then claims all, then allows all. Once every
core member is claimed, the start is irrevocable for any leader that reads the API objects; before that everything can
be released.

Groups of a source take turns (`Contender.order`): of two groups with targets in common, only one has candidates. It
releases everything after a timeout, so that groups of different sources cannot block each other forever. Each then
retries after a pause of its own.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from agent.model.podstate import NEGATIVE
from agent.scheduler.groups import restarts as restarts
from agent.scheduler.groups.members import Group, Member, ill_formed
from agent.scheduler.groups.order import Contender, GroupMemory, Timeouts, pause
from agent.scheduler.reserve.decide import feasible, home, reasons, reserved
from agent.scheduler.reserve.view import Permit, denied

_TOLD = 3
"""Number of targets whose reasons a message includes."""
_TOLD_AFTER_SECONDS = 5.0
"""Seconds of collecting reservations before the pods report it: most groups are complete by then."""


@dataclass(frozen=True)
class GroupDecision:
    """Permits for the unbound members of a group."""

    permits: dict[str, Permit]
    """By the UID of the member."""
    memory: GroupMemory
    seconds: float | None = None
    """Seconds until the next check, unless something changes before."""
    to_delete: tuple[str, ...] = ()
    """UIDs of members to delete so that the group starts again as a whole."""
    why: str = ""
    """Why they are deleted."""


def contender(group: Group) -> Contender:
    """Return the state of this group that the decisions for other groups need."""
    memory = group.memory
    core = _core(group)
    drain_until = memory.drain_until is not None and memory.drain_until > -math.inf
    complete = not (_wrong(group) or drain_until) and len(core) == group.size and _begun(group) is None
    views = [member.view for member in core if member.view is not None]
    return Contender(
        key=group.key,
        wants=complete,
        claims=any(view.claim for view in views),
        holds=memory.since is not None or (not memory.tries and any(s.live for view in views for s in view.candidates)),
        targets=frozenset(node for view in views for node in (*view.order, *(s.node_name for s in view.candidates))),
        priority=max((member.priority for member in core), default=0),
        queued=memory.queued,
        created=min((member.created for member in core), default=""),
        until=memory.until,
    )


def decide(group: Group, rivals: Iterable[Contender], now: float, limits: Timeouts) -> GroupDecision:
    """Return the permits of the members. `rivals` are all other groups of this source."""
    if not any(member.live for member in group.members):
        return GroupDecision({}, _rest(group.memory))
    if not group.restarts:
        return _decide(group, rivals, now, limits)
    run, loss = restarts.lost(group)
    if run:
        why = f"group {group.name} has lost {loss} and starts again as a whole"
        going = restarts.to_delete(group, run)
        memory = replace(_rest(group.memory), lost=run, loss=loss)
        return replace(_decision(group, denied(why), memory), to_delete=going, why=why)
    drain_until = restarts.drain_until(group, now, limits) if _begun(group) is None else None
    group = replace(group, memory=replace(group.memory, lost="", loss="", drain_until=drain_until))
    decision = _decide(group, rivals, now, limits)
    name = restarts.name(group, _core(group))
    return replace(decision, permits={uid: replace(permit, run=name) for uid, permit in decision.permits.items()})


def _decide(group: Group, rivals: Iterable[Contender], now: float, limits: Timeouts) -> GroupDecision:
    begun = _begun(group)
    if begun is not None:
        return _decision(group, Permit(only=_only(group, begun), begun=True), _rest(group.memory))
    core = [] if ill_formed(group) else _core(group)
    if core and len(core) == group.size and _committed(core):
        return _decision(
            group, Permit(committed=True, begun=True, only=_only(group, _claim(core[0]))), _rest(group.memory)
        )
    wrong = _wrong(group)
    if wrong:
        return _decision(group, denied(wrong), _rest(group.memory))
    if group.memory.drain_until is not None and now < group.memory.drain_until:
        names = ", ".join(sorted(member.name for member in restarts.terminating(group)))
        message = f"group {group.name} starts again when {names} of its last start is gone"
        return _decision(group, denied(message), _rest(group.memory), group.memory.drain_until - now)
    if len(core) < group.size:
        gated = f", and {group.gated} with scheduling gates" if group.gated else ""
        there = f"there are {len(core)} of {group.size} pods in this namespace"
        message = f"group {group.name} waits for its members: {there}{gated}"
        return _decision(group, denied(message), _rest(group.memory))
    return _take_turns(group, core, rivals, now, limits)


def _take_turns(
    group: Group, core: list[Member], rivals: Iterable[Contender], now: float, limits: Timeouts
) -> GroupDecision:
    left = group.memory.until - now
    if left > 0:
        return _decision(group, denied(group.memory.message), group.memory, left)
    mine = contender(group)
    waiting = [rival for rival in rivals if rival.wants and rival.until <= now and rival.targets & mine.targets]
    first = min(waiting, key=Contender.order, default=None)
    if first is not None and first.order() < mine.order():
        message = f"group {group.name} waits for group {first.key[1]}, which comes first"
        return _decision(group, denied(message), replace(group.memory, since=None))
    return _collect(group, core, now, limits, contested=bool(waiting))


def _collect(group: Group, core: list[Member], now: float, limits: Timeouts, *, contested: bool) -> GroupDecision:
    since = now if group.memory.since is None else group.memory.since
    memory = replace(group.memory, since=since)
    node = _common(core) if group.policy == "one-cluster" else ""
    if node is not None and all(_has_reservation(member, node) for member in core):
        return _of_core(
            group, core, Permit(allow=False, only=node, claim_at_once=True), memory, since + limits.timeout - now
        )
    pins = _surplus(group, core)
    lacking = None if pins else next((member for member in core if _is_hopeless(member)), None)
    limit = limits.hopeless if contested and lacking is not None else limits.timeout
    left = since + limit - now
    if left <= 0:
        wait = pause(group.key, core[0].uid, memory.tries, limits)
        got = f"group {group.name} got no reservation for every member in {limit:g} s"
        message = f"{got} and tries again in a moment{_lacking(core, now)}"
        drain_until = memory.drain_until
        released = GroupMemory(now, None, now + wait, memory.tries + 1, message, drain_until=drain_until)
        return _decision(group, denied(message), released, wait)
    message = ""
    if lacking is not None:
        message = f"group {group.name} waits: no target has a node for {lacking.name}"
    elif now >= since + _TOLD_AFTER_SECONDS:
        message = f"group {group.name} collects reservations for its {group.size} pods"
    else:
        left = min(left, since + _TOLD_AFTER_SECONDS - now)
    permit = Permit(claim=False, allow=False, message=message)
    decision = _of_core(group, core, permit, memory, left)
    return replace(decision, permits=decision.permits | {uid: replace(permit, only=node) for uid, node in pins.items()})


def _core(group: Group) -> list[Member]:
    """Return the members that start together: claimed members first, then the oldest."""
    live = [member for member in group.members if member.live]
    live.sort(key=lambda m: (not (m.view is not None and m.view.claim), m.created, m.uid))
    return live[: group.size]


def _begun(group: Group) -> str | None:
    """Return the virtual node of a member that is allowed to start; None if no member is."""
    live = [member for member in group.members if member.live]
    for member in live:
        if member.node_name:
            return member.node_name
        here = home(member.view) if member.view is not None else None
        if here is not None and (here.allowed or here.state == "bound"):
            return _claim(member)
    if group.restarts:
        # A lost member restarts the whole group. Only pods that come after a completed group start alone.
        followed = group.done >= group.asked
        return next((m.node_name for m in group.members if m.done and m.node_name), None) if followed else None
    for member in group.members:
        if member.over and member.node_name and any(_same_run(member, other) for other in live):
            return member.node_name
    return None


def _same_run(over: Member, live: Member) -> bool:
    """Return True if a pod that has ended started together with a waiting pod, or the waiting pod replaces it.

    Ended pods may be left from an earlier group of the same name, which does not count: a waiting member of this group
    was created before the first pod of its run started.
    """
    return (bool(over.owner) and over.owner == live.owner) or live.created <= over.started


def _only(group: Group, node: str) -> str:
    return node if group.policy == "one-cluster" else ""


def _claim(member: Member) -> str:
    return member.view.claim if member.view is not None else member.node_name


def _committed(core: list[Member]) -> bool:
    """Return True if every member's claim is valid. A claim is valid until its chaperon is seen to be deleted."""
    for member in core:
        if member.view is None or not member.view.claim:
            return False
        here = home(member.view)
        if here is None or here.going:
            return False
    return True


def _has_reservation(member: Member, node: str) -> bool:
    """Return True if a member could start, on the given virtual node unless that is empty."""
    if member.view is None:
        return False
    if member.view.claim:
        here = home(member.view)
        return here is not None and here.state == "reserved" and here.live and node in ("", member.view.claim)
    return any(node in ("", s.node_name) for s in reserved(member.view))


def _is_hopeless(member: Member) -> bool:
    """Return True if every target has reported that it has no node for the member."""
    if member.view is None or member.view.claim:
        return False
    refused = {s.node_name for s in member.view.candidates if s.state in NEGATIVE}
    return all(node in refused for node in feasible(member.view))


def _lacking(core: list[Member], now: float) -> str:
    """Return the reasons of targets for the first member without a reservation."""
    for member in core:
        if member.view is None or _has_reservation(member, ""):
            continue
        targets = feasible(member.view)
        view = replace(member.view, timeouts=replace(member.view.timeouts, silence=0.0))
        said = [f"{node}: {reason}" for node, reason in reasons(view, now).items() if node in targets]
        why = "; ".join(sorted(said)[:_TOLD]) or (
            "no target has answered" if targets else "no target passes the filters"
        )
        return f": {member.name} has none ({why})"
    return ": no target has room for all of it"


def _surplus(group: Group, core: list[Member]) -> dict[str, str]:
    """Return the one virtual node to keep, by UID, for members with several reservations while others have none.

    `steps` counts how many moves separate a target from one that a member without reservation could use. A member keeps
    its farthest target and releases the others.
    """
    views = {member.uid: member.view for member in core if member.view is not None and not member.view.claim}
    held = {uid: [candidate.node_name for candidate in reserved(view)] for uid, view in views.items()}
    if group.policy == "one-cluster" or all(held.values()):
        return {}
    steps: dict[str, int] = {}
    wave, count = {node for uid, nodes in held.items() if not nodes for node in feasible(views[uid])}, 0
    while wave:
        steps |= dict.fromkeys(wave, count)
        moving = [uid for uid, nodes in held.items() if wave.intersection(nodes)]
        wave, count = {node for uid in moving for node in feasible(views[uid])} - steps.keys(), count + 1
    return {
        uid: max(nodes, key=lambda node: steps.get(node, len(steps))) for uid, nodes in held.items() if len(nodes) > 1
    }


def _common(core: list[Member]) -> str | None:
    """Return the best-ranked virtual node with reservations for all members; None if there is none."""
    ranks: dict[str, list[int]] = {}
    for member in core:
        if member.view is None:
            return None
        targets = list(member.view.order)
        claim = member.view.claim
        for node in [claim] if claim else [s.node_name for s in reserved(member.view)]:
            ranks.setdefault(node, []).append(targets.index(node) if node in targets else len(targets))
    full = [(sum(found), node) for node, found in ranks.items() if len(found) == len(core)]
    return min(full)[1] if full else None


def _of_core(group: Group, core: list[Member], permit: Permit, memory: GroupMemory, seconds: float) -> GroupDecision:
    beyond = denied(f"group {group.name} has {group.size} pods before this one that start together")
    uids = {member.uid for member in core}
    permits = {m.uid: permit if m.uid in uids else beyond for m in group.members if m.live}
    return GroupDecision(permits, memory, seconds)


def _decision(group: Group, permit: Permit, memory: GroupMemory, seconds: float | None = None) -> GroupDecision:
    """Apply the permit to all members; if the namespace is not enabled, only to claimed ones."""
    others = denied(group.closed) if group.closed else permit
    live = [member for member in group.members if member.live]
    return GroupDecision({member.uid: permit if _claim(member) else others for member in live}, memory, seconds)


def _wrong(group: Group) -> str:
    """Return why the group may not begin; empty if it may."""
    return group.closed or ill_formed(group)


def _rest(memory: GroupMemory) -> GroupMemory:
    """Reset the turn: the group collects nothing, and counts unsuccessful turns from 0."""
    return replace(memory, since=None, until=-math.inf, tries=0)
