"""The pods of a group, and what is wrong with what their annotations say. Pure."""

from dataclasses import dataclass

from agent.api import names
from agent.api.names.ocm import PLACEMENT
from agent.scheduler.groups.turns import GroupMemory, Key
from agent.scheduler.reserve.view import ReservePod


@dataclass(frozen=True)
class Member:
    """A proxy pod with the group's annotation."""

    name: str
    uid: str
    created: str
    """RFC 3339."""
    size: str | None
    """The annotation as written, None without one."""
    policy: str | None = None
    priority: int = 0
    owner: str = ""
    """UID of its controller, empty without one."""
    view: ReservePod | None = None
    """Of a member that is live and not bound."""
    node_name: str = ""
    """The virtual node it is bound to."""
    started: str = ""
    """When its delegate started, RFC 3339."""
    placement: str = ""
    """What it follows, in words; empty where it follows no Placement."""
    over: bool = False
    """Its phase is Succeeded or Failed."""
    going: bool = False
    """It is being deleted."""
    on_failure: str | None = None
    """The annotation as written, None without one."""
    run: str = ""
    """The start of its group that its claim belongs to; empty in a group that does not start again."""
    done: bool = False
    """It has Succeeded, and nothing is to start it again."""
    grace: float = 30.0
    """Seconds that its containers are given to end."""

    @property
    def live(self) -> bool:
        """Whether it takes part."""
        return not (self.over or self.going)


@dataclass(frozen=True)
class Group:
    """Pods of one namespace with the same group annotation."""

    key: Key
    members: tuple[Member, ...]
    memory: GroupMemory
    gated: int = 0
    """Pods with scheduling gates, which are no members yet."""
    closed: str = ""
    """Why no pod of its namespace gets a target anew, empty when pods may."""

    @property
    def name(self) -> str:
        """The group's name, as the pods' annotation has it."""
        return self.key[1]

    @property
    def size(self) -> int:
        """How many start together; only of a group that is well formed.

        When a group starts again, those that are done have done their part, and the rest is smaller.
        """
        return self.asked - self.done if self.done < self.asked else self.asked

    @property
    def asked(self) -> int:
        """The size as written."""
        return next((number(m.size) or 0 for m in self.members if m.live), 0)

    @property
    def restarts(self) -> bool:
        """Whether it starts again as a whole when it loses a member."""
        return any(m.live and m.on_failure == names.RESTART for m in self.members)

    @property
    def done(self) -> int:
        """How many members are done of what is at work now; 0 if the group never restarts.

        Pods of the same controllers, and those that ran together with one of these. Others may be left from a group by
        the same name, such as that of an earlier Job.
        """
        if not self.restarts:
            return 0
        owners = {member.owner for member in self.members if member.live and member.owner}
        runs = {member.run for member in self.members if member.run and member.owner in owners}
        return sum(member.done and (member.owner in owners or member.run in runs) for member in self.members)

    @property
    def policy(self) -> str:
        """One of `names.POD_GROUP_POLICIES`."""
        return next((m.policy for m in self.members if m.live and m.policy), names.POD_GROUP_POLICIES[0])


def ill_formed(group: Group) -> str:
    """What has to be mended before the group can start, empty when nothing; names pod and annotation."""
    live = sorted((member for member in group.members if member.live), key=lambda m: (m.created, m.uid))
    for member in live:
        if number(member.size) is None:
            value = "missing" if member.size is None else repr(member.size)
            return f"{_where(member, names.POD_GROUP_SIZE)} is {value}: write how many pods start together, 1 or more"
        for key, chosen, choices in (
            (names.POD_GROUP_POLICY, member.policy, names.POD_GROUP_POLICIES),
            (names.POD_GROUP_ON_FAILURE, member.on_failure, names.POD_GROUP_ON_FAILURES),
        ):
            if chosen is not None and chosen not in choices:
                return f"{_where(member, key)} is {chosen!r}: write {' or '.join(choices)}"
    for member in live[1:]:
        first = live[0]
        for suffix, here, there in (
            (names.POD_GROUP_SIZE, number(member.size), number(first.size)),
            (names.POD_GROUP_POLICY, _policy(member), _policy(first)),
            (names.POD_GROUP_ON_FAILURE, _on_failure(member), _on_failure(first)),
            (PLACEMENT, member.placement or "none", first.placement or "none"),
        ):
            if here != there:
                return (
                    f"{_where(member, suffix)} is {here} and on pod {first.name} {there}:"
                    f" write the same on all pods of group {group.name}"
                )
    return ""


def number(text: str | None) -> int | None:
    """A size as written, None when it is none."""
    usable = text is not None and text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) or None if usable and text is not None else None


def _policy(member: Member) -> str:
    return member.policy or names.POD_GROUP_POLICIES[0]


def _on_failure(member: Member) -> str:
    return member.on_failure or names.POD_GROUP_ON_FAILURES[0]


def _where(member: Member, suffix: str) -> str:
    return f"metadata.annotations[{names.SHORT_PREFIX}{suffix}] of pod {member.name}"
