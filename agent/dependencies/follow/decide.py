"""The next step for one object in one target. Pure."""

from dataclasses import dataclass

import msgspec


class OriginalAndCopy(msgspec.Struct, frozen=True):
    """An original and its copy as cached in the stores."""

    original: str | None
    """Version of the original; None if it does not exist or is being deleted."""
    copy: str | None
    """Version of this cluster's copy, None if it does not exist."""
    agreed: tuple[str, str] | None
    """Versions of original and copy that matched last. The copy's is empty if no copy is due."""
    needed: bool
    """True if a pod needs the object, and runs or will soon run in the cluster of the target."""
    idle: float
    """Seconds since it was last needed."""
    linger: float
    """Seconds for which an unneeded copy stays, since rolling updates may need it again."""


@dataclass(frozen=True)
class Create:
    """Read the original from the API server, as a store may be stale, and create the copy."""


class Compare(msgspec.Struct, frozen=True):
    """Read both, and write if they differ."""


class Remove(msgspec.Struct, frozen=True):
    """Delete a copy that is no longer needed."""


class RemoveOrphan(msgspec.Struct, frozen=True):
    """Delete the copy if the API server confirms that the original does not exist."""


class Rest(msgspec.Struct, frozen=True):
    """Do nothing, or nothing before `seconds` have passed."""

    seconds: float | None = None


Step = Create | Compare | Remove | RemoveOrphan | Rest


def decide(view: OriginalAndCopy) -> Step:
    """Return the next step for an object in one target."""
    if view.copy is None:
        return Create() if view.needed and (view.original is None or view.agreed != (view.original, "")) else Rest()
    if view.original is None:
        return RemoveOrphan()
    if view.needed:
        return Rest() if view.agreed == (view.original, view.copy) else Compare()
    if view.idle < view.linger:
        return Rest(view.linger - view.idle)
    return Remove()
