"""Decision whether apparent orphans in a target may be deleted, or this cluster has forgotten their pods. Pure.

An orphan is a PodChaperon that this cluster created for a pod whose name it does not know. Normally pods are
not forgotten: their finalizers keep a pod that was deleted while no agent ran in the state terminating, however
many were deleted with it. Few orphans result from faults: a finalizer that a user removed, or a lost target
that has returned. Many that were created while this cluster had no leader prove that its etcd was restored from
an older backup: they are the pods created since that backup, and they may be in use.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from agent.base.leaderless_intervals import Absence, last_of

MANY = 10
SHARE = 0.2
"""Orphans are held if they are more than MANY, or more than this share of this cluster's chaperons in a target."""


class Census(msgspec.Struct, frozen=True):
    """Chaperons of this cluster in a target."""

    chaperons: int
    """Number of chaperons that are not being deleted."""
    orphans: tuple[datetime, ...]
    """Creation times, by the local clock, of chaperons whose pod is unknown and was not observed being deleted."""

    @property
    def many(self) -> bool:
        """Whether there are too many orphans for an accident. With few chaperons in a target, few orphans are many."""
        return len(self.orphans) > MANY or len(self.orphans) > SHARE * self.chaperons


class Hold(NamedTuple):
    """Orphans whose deletion is held back."""

    orphans: int
    chaperons: int
    token: str
    """Value of the annotation that permits deletion: the time from which the pods were forgotten; empty if none
    does.
    """


def hold(census: Census, absences: Iterable[Absence], released: str) -> Hold | None:
    """Return the orphans to hold in a target, None if all may be deleted.

    :param released: value of the Target's annotation
    """
    absence = last_of(absences, census.orphans) if census.many else None
    if absence is None or released == absence.token:
        return None
    return Hold(len(census.orphans), census.chaperons, absence.token)
