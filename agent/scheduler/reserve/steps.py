"""Steps that mode `reserve` may take for a pod."""

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Create:
    """Create a chaperon that is not allowed to start. AlreadyExists counts as success."""

    node_name: str


@dataclass(frozen=True)
class Claim:
    """Claim the pod for this chaperon, in one write guarded by the proxy pod's version, and requeue at once."""

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

    `confirm`: the chaperon is allowed. Read the proxy pod first, and keep the chaperon if the claim has changed. Delete
    with foreground propagation, so that its pod is deleted first (ruling 5). The pod of a chaperon that was never
    allowed cannot start.
    """

    node_name: str
    uid: str
    version: str
    confirm: bool = False


class NextRound(msgspec.Struct, frozen=True):
    """Write the next round: the reservation has ended and the pod still needs one."""

    node_name: str
    uid: str
    round: int


@dataclass(frozen=True)
class GiveUp:
    """Record why the claim's target could not take the pod, then delete the chaperon as `Delete` does."""

    reason: str
    uid: str
    version: str


class Unclaim(msgspec.Struct, frozen=True):
    """Remove the claim of a chaperon that has not been seen, guarded by the proxy pod's version.

    Read the target first: if the chaperon exists, put it into the store and keep the claim.
    """


class Bind(msgspec.Struct, frozen=True):
    """Bind the proxy pod to the claim's virtual node: the delegate has a node."""


@dataclass(frozen=True)
class Wait:
    """Wait for a change, or `seconds`; `message` is the reason shown on the pod, if any."""

    message: str = ""
    seconds: float | None = None


Step = Create | Claim | Allow | Delete | NextRound | GiveUp | Unclaim | Bind | Wait
