"""Whether what looks like orphans in a target may be deleted, or is what this cluster has forgotten. Pure.

An orphan is a PodChaperon that this cluster made for a pod of a name that it does not know. Pods are not forgotten in
the ordinary course: they carry finalizers, so that a pod that was deleted while no agent ran is still there,
terminating, however many were deleted with it. Few orphans come about by faults: a finalizer taken off by hand, a
target that was given up and is back. Many, made while this cluster knew of no leader, mean that its etcd was restored
from a backup: they are the pods that were made since, and run for somebody.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from agent.base.leaderless_intervals import Absence, last_of

MANY = 10
SHARE = 0.2
"""Orphans are held where they are more than so many, or more than this share of what this cluster has in a target."""


class Census(msgspec.Struct, frozen=True):
    """What this cluster has in a target."""

    chaperons: int
    """All of them that are not being deleted."""
    orphans: tuple[datetime, ...]
    """Those whose pod is not known, and was not seen to be deleted either: when they were made, by our clock."""

    @property
    def many(self) -> bool:
        """Whether so many may be no accident: who has few pods in a target has no more than these to lose."""
        return len(self.orphans) > MANY or len(self.orphans) > SHARE * self.chaperons


class Hold(NamedTuple):
    """Orphans that are not deleted."""

    orphans: int
    chaperons: int
    token: str
    """What the annotation has to say: from when on this cluster has forgotten them; empty where none helps."""


def hold(census: Census, absences: Iterable[Absence], released: str) -> Hold | None:
    """What is held in a target, None where every orphan may go; `released` is what the Target's annotation says."""
    absence = last_of(absences, census.orphans) if census.many else None
    if absence is None or released == absence.token:
        return None
    return Hold(len(census.orphans), census.chaperons, absence.token)
