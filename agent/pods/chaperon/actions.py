"""Actions for a chaperon and the pod of the same name."""

from typing import Any

import msgspec


class CreatePod(msgspec.Struct, frozen=True):
    """Create the delegate. `once`: the delegate must not run twice, so record its creation first."""

    once: bool = False


class PatchChaperon(msgspec.Struct, frozen=True):
    """Change the chaperon's metadata. `if_missing`: only if a GET confirms that the pod does not exist."""

    patch: dict[str, Any]
    if_missing: bool = False


class PutStatus(msgspec.Struct, frozen=True):
    """Replace the chaperon's status."""

    status: dict[str, Any]


class PatchPod(msgspec.Struct, frozen=True):
    """Apply changes of the proxy pod to the delegate."""

    patch: dict[str, Any]
    sub: str | None = None


class DeletePod(msgspec.Struct, frozen=True):
    """Delete a delegate without a node, only at the version that was judged."""


class Foreign(msgspec.Struct, frozen=True):
    """Report a pod of the same name that another owner controls. It is never changed."""

    message: str


class Refuse(msgspec.Struct, frozen=True):
    """Create no delegate, and report the reason."""

    message: str
    by: str
    """The Source whose policy forbids the pod; empty if the reason is not a policy."""


class RefuseChange(msgspec.Struct, frozen=True):
    """Leave the delegate unchanged, and report the reason."""

    message: str


class LeaveOut(msgspec.Struct, frozen=True):
    """Report annotations of the delegate that do not fit onto its chaperon, in an event on the delegate."""

    message: str


class NoScheduler(msgspec.Struct, frozen=True):
    """Report in an event and in the status that no scheduler of this cluster is responsible for the delegate."""

    message: str
    status: dict[str, Any]


class LookAgain(msgspec.Struct, frozen=True):
    """Requeue after some seconds."""

    seconds: float


Action = (
    CreatePod
    | PatchChaperon
    | PutStatus
    | PatchPod
    | DeletePod
    | Foreign
    | Refuse
    | RefuseChange
    | LeaveOut
    | NoScheduler
    | LookAgain
)
