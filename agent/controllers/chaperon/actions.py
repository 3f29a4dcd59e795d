"""What may be done about a chaperon and the pod of its name."""

from typing import Any

import msgspec


class CreatePod(msgspec.Struct, frozen=True):
    """Make the delegate; `once`: never another one, which is recorded before."""

    once: bool = False


class PatchChaperon(msgspec.Struct, frozen=True):
    """Change the chaperon's metadata; `if_missing`: only if the API server itself says that there is no pod."""

    patch: dict[str, Any]
    if_missing: bool = False


class PutStatus(msgspec.Struct, frozen=True):
    """Make this the chaperon's status."""

    status: dict[str, Any]


class PatchPod(msgspec.Struct, frozen=True):
    """Let the delegate follow what changed on its proxy pod."""

    patch: dict[str, Any]
    sub: str | None = None


class DeletePod(msgspec.Struct, frozen=True):
    """Delete the delegate at this very version, which has no node."""


class Foreign(msgspec.Struct, frozen=True):
    """A pod of that name is there and is not ours: never touched, reported."""

    message: str


class Refuse(msgspec.Struct, frozen=True):
    """Make no delegate, and say why."""

    message: str
    by: str
    """The Source whose policy does not allow it, empty if it is not for a policy."""


class RefuseChange(msgspec.Struct, frozen=True):
    """Leave the delegate as it is, and say why."""

    message: str


class LeaveOut(msgspec.Struct, frozen=True):
    """Annotations of the delegate do not fit onto its chaperon: told on the delegate, whose warnings come home."""

    message: str


class NoScheduler(msgspec.Struct, frozen=True):
    """No scheduler of this cluster is for the delegate: told on it, and by the status."""

    message: str
    status: dict[str, Any]


class LookAgain(msgspec.Struct, frozen=True):
    """Nothing to do before some seconds have passed."""

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
