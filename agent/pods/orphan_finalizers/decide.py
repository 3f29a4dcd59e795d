"""Find finalizers of a proxy pod that no agent will remove. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from agent.model import podstate

OLD_SECONDS = 2.0
"""Seconds until the next check of a pod that still needs the finalizer of v0.10."""


class Known(msgspec.Struct, frozen=True):
    """A Target that exists.

    `free_in` is the seconds until pods lose its finalizer, 0 for now: the Target is being deleted and its cluster
    cannot be reached (ruling 8). None if feedback still releases the pods.
    """

    finalizer: str
    free_in: float | None = None


class Removal(msgspec.Struct, frozen=True):
    """Finalizers to remove now, and the seconds until the next check; None without one."""

    remove: tuple[str, ...]
    again: float | None


def decide(finalizers: Iterable[str], known: Mapping[str, Known], *, needs_old: bool = False) -> Removal:
    """Finalizers with Admiralty's prefix that belong to no target.

    The one that v0.10 put on every pod, for all targets together, is among them once it is no longer needed.
    """
    remove = []
    again = None
    for finalizer in podstate.target_finalizers(finalizers):
        if podstate.is_for_all_targets(finalizer) and needs_old:
            again = OLD_SECONDS if again is None else min(again, OLD_SECONDS)
            continue
        target = known.get(finalizer)
        if target is None or (target.free_in is not None and target.free_in <= 0):
            remove.append(finalizer)
        elif target.free_in is not None:
            again = target.free_in if again is None else min(again, target.free_in)
    return Removal(tuple(remove), again)
