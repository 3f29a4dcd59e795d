"""The next step for one object in one target. Pure."""

from dataclasses import dataclass

import msgspec


class OriginalAndCopy(msgspec.Struct, frozen=True):
    """What stores hold of an original and its copy."""

    original: str | None
    """Version of the original, None when the source's store has none that is not being deleted."""
    copy: str | None
    """Version of the copy of ours, None for none."""
    agreed: tuple[str, str] | None
    """Versions of original and copy that were found to be the same, or made so; none of the copy where none is due."""
    needed: bool
    """A pod that runs or is about to run there, or another target of the same cluster, needs it."""
    idle: float
    """Seconds since it was last needed."""
    linger: float
    """For how long a copy stays that nobody needs: rolling updates come back to it."""


@dataclass(frozen=True)
class Create:
    """Read the original and create the copy: the API server is asked, for a store may be behind."""


class Compare(msgspec.Struct, frozen=True):
    """Read both, and write where they differ."""


class Remove(msgspec.Struct, frozen=True):
    """Nobody needs the copy."""


class RemoveOrphan(msgspec.Struct, frozen=True):
    """The original is gone, if its API server says so, too."""


class Rest(msgspec.Struct, frozen=True):
    """Nothing to do, or not before `seconds` have passed."""

    seconds: float | None = None


Step = Create | Compare | Remove | RemoveOrphan | Rest


def decide(view: OriginalAndCopy) -> Step:
    """The next step for an item in one target."""
    if view.copy is None:
        return Create() if view.needed and (view.original is None or view.agreed != (view.original, "")) else Rest()
    if view.original is None:
        return RemoveOrphan()
    if view.needed:
        return Rest() if view.agreed == (view.original, view.copy) else Compare()
    if view.idle < view.linger:
        return Rest(view.linger - view.idle)
    return Remove()
