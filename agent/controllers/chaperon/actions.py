"""What may be done about a chaperon and the pod of its name."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CreatePod:
    """Make the delegate; `once`: never another one, which is recorded before."""

    once: bool = False


@dataclass(frozen=True)
class PatchChaperon:
    """Change the chaperon's metadata; `if_missing`: only if the API server itself says that there is no pod."""

    patch: dict[str, Any]
    if_missing: bool = False


@dataclass(frozen=True)
class PutStatus:
    """Make this the chaperon's status."""

    status: dict[str, Any]


@dataclass(frozen=True)
class PatchPod:
    """Let the delegate follow what changed on its proxy pod."""

    patch: dict[str, Any]
    sub: str | None = None


@dataclass(frozen=True)
class Foreign:
    """A pod of that name is there and is not ours: never touched, reported."""

    message: str


@dataclass(frozen=True)
class Refuse:
    """Make no delegate, and say why."""

    message: str
    by: str
    """The Source whose policy does not allow it, empty if it is not for a policy."""


@dataclass(frozen=True)
class RefuseChange:
    """Leave the delegate as it is, and say why."""

    message: str


@dataclass(frozen=True)
class LeaveOut:
    """Annotations of the delegate do not fit onto its chaperon: told on the delegate, whose warnings come home."""

    message: str


@dataclass(frozen=True)
class NoScheduler:
    """No scheduler of this cluster is for the delegate: told on it, and by the status."""

    message: str
    status: dict[str, Any]


@dataclass(frozen=True)
class LookAgain:
    """Nothing to do before some seconds have passed."""

    seconds: float


Action = (
    CreatePod
    | PatchChaperon
    | PutStatus
    | PatchPod
    | Foreign
    | Refuse
    | RefuseChange
    | LeaveOut
    | NoScheduler
    | LookAgain
)
