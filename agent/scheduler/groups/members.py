"""The pods of a group, and errors in their annotations. Pure."""

from dataclasses import dataclass

from agent.api import names
from agent.api.names.ocm import PLACEMENT
from agent.scheduler.groups.order import GroupMemory, Key
from agent.scheduler.reserve.view import ReservePod


@dataclass(frozen=True)
class Member:
    """A proxy pod with the group's annotation."""

    name: str
    uid: str
    created: str
    """RFC 3339."""
    size: str | None
    """The annotation as written; None if absent."""
    policy: str | None = None
    priority: int = 0
    owner: str = ""
    """UID of its controller; empty if it has none."""
    view: ReservePod | None = None
    """None unless the member is live and not bound."""
    node_name: str = ""
    """The virtual node it is bound to; empty if unbound."""
    started: str = ""
    """When its delegate started, RFC 3339."""
    placement: str = ""
    """Description of the Placement that it follows; empty if none."""
    over: bool = False
    """True if its phase is Succeeded or Failed."""
    going: bool = False
    """True if it is being deleted."""
    on_failure: str | None = None
    """The annotation as written; None if absent."""
    run: str = ""
    """Name of the group's start that its claim belongs to; empty if the group does not restart."""
    done: bool = False
    """True if it has succeeded and no controller restarts it."""
    grace: float = 30.0
    """Its termination grace period in seconds."""

    @property
    def live(self) -> bool:
        """True if the member counts for the group: it is neither finished nor being deleted."""
        return not (self.over or self.going)


@dataclass(frozen=True)
class Group:
    """Pods of one namespace with the same group annotation."""

    key: Key
    members: tuple[Member, ...]
    memory: GroupMemory
    gated: int = 0
    """Number of pods with scheduling gates, which are not members yet."""
    closed: str = ""
    """Why no pod of its namespace gets a new target; empty if pods may."""

    @property
    def name(self) -> str:
        """The group's name in the pods' annotation."""
        return self.key[1]

    @property
    def size(self) -> int:
        """Number of members that start together; valid only for a well-formed group.

        After a restart, members that are done do not count, so the rest is smaller.
        """
        return self.asked - self.done if self.done < self.asked else self.asked

    @property
    def asked(self) -> int:
        """The size as written."""
        return next((number(m.size) or 0 for m in self.members if m.live), 0)

    @property
    def restarts(self) -> bool:
        """True if it starts again as a whole when it loses a member."""
        return any(m.live and m.on_failure == names.RESTART for m in self.members)

    @property
    def done(self) -> int:
        """Number of current members that are done; 0 if the group never restarts.

        Counts pods of the same controllers, and pods of the same runs. Others may be left from a group of the same
        name, such as one of an earlier Job.
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
    """Return what the user has to correct before the group can start; empty if nothing. Names the pod and the
    annotation.
    """
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
    """Parse a size; None if invalid."""
    usable = text is not None and text.isascii() and text.isdecimal() and len(text) < 10
    return int(text) or None if usable and text is not None else None


def _policy(member: Member) -> str:
    return member.policy or names.POD_GROUP_POLICIES[0]


def _on_failure(member: Member) -> str:
    return member.on_failure or names.POD_GROUP_ON_FAILURES[0]


def _where(member: Member, suffix: str) -> str:
    return f"metadata.annotations[{names.SHORT_PREFIX}{suffix}] of pod {member.name}"
