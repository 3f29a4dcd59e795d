"""Intervals without a leader: an object created in one proves that etcd was restored from an older backup. Pure.

A leader renews its lease every few seconds, and writes only while it does. So its own cluster's lease is older than its
writes in targets only if a backup of that cluster was restored, or a copy of the cluster started.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from agent.base.clock import micro_stamp, parse, stamp

_KEPT = 20
"""Maximum number of recorded intervals: more than restarts and upgrades cause in the life of most pods."""


class Absence(NamedTuple):
    """Interval from the end of the last known leader's lease to the start of the next leader."""

    began: datetime
    ended: datetime

    @property
    def token(self) -> str:
        """Return the name of the interval for users."""
        return stamp(self.began)


def read(text: str) -> tuple[Absence, ...]:
    """Return the absences that `write` has encoded; empty for invalid text."""
    try:
        pairs = msgspec.json.decode(text or "[]", type=list[tuple[str, str]])
        return tuple(Absence(parse(began), parse(ended)) for began, ended in pairs)
    except (msgspec.DecodeError, ValueError):
        return ()


def write(absences: Iterable[Absence]) -> str:
    """Absences as JSON, as the annotation of the Lease has them."""
    return msgspec.json.encode([tuple(map(micro_stamp, absence)) for absence in absences]).decode()


def noted(absences: tuple[Absence, ...], renewed: str, seconds: float, now: datetime) -> tuple[Absence, ...]:
    """Add the interval before a lease was taken at `now`, after its renewal at `renewed` for at most `seconds`.

    An interval of at most `seconds` is omitted: it occurs whenever a leader dies.
    """
    try:
        began = parse(renewed) + timedelta(seconds=seconds)
    except ValueError:
        return absences
    if now - began <= timedelta(seconds=seconds):
        return absences
    return (*absences, Absence(began, now))[-_KEPT:]


def last_of(absences: Iterable[Absence], moments: Iterable[datetime]) -> Absence | None:
    """Return the latest absence that contains one of these moments; None if none does."""
    moments = tuple(moments)
    found = [each for each in absences if any(each.began < moment < each.ended for moment in moments)]
    return max(found, default=None)
