"""What mode `reserve` may have to do for a pod."""

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Create:
    """Create a chaperon that is not allowed. An answer that it is there already is as good."""

    node_name: str


@dataclass(frozen=True)
class Claim:
    """Promise the pod to this chaperon: one write guarded by the proxy pod's version. Look again at once."""

    node_name: str
    uid: str


@dataclass(frozen=True)
class Allow:
    """Allow the claimed chaperon to start, guarded by UID and version."""

    node_name: str
    uid: str
    version: str


@dataclass(frozen=True)
class Delete:
    """Delete a chaperon, guarded by UID and version.

    `confirm`: it is allowed, so read the proxy pod first, keep the chaperon when the claim is not that of the view, and
    have it go after its pod (foreground propagation; ruling 5). The pod of one that was never allowed cannot start.
    """

    node_name: str
    uid: str
    version: str
    confirm: bool = False


class NextRound(msgspec.Struct, frozen=True):
    """The reservation has ended and the pod still wants one: write the next round."""

    node_name: str
    uid: str
    round: int


@dataclass(frozen=True)
class GiveUp:
    """Remember why the claim's target could not take the pod, then delete the chaperon like `Delete`."""

    reason: str
    uid: str
    version: str


class Unclaim(msgspec.Struct, frozen=True):
    """The chaperon that the claim names is not to be seen. Read its target: if it is there, take it into the store;
    only if it is not, remove the claim, guarded by the proxy pod's version of this view.
    """


class Bind(msgspec.Struct, frozen=True):
    """The delegate has a node: bind the proxy pod to the claim's virtual node."""


@dataclass(frozen=True)
class Wait:
    """Nothing to do until something changes, or `seconds` have passed; `message`, where there is one, says why."""

    message: str = ""
    seconds: float | None = None


Step = Create | Claim | Allow | Delete | NextRound | GiveUp | Unclaim | Bind | Wait
