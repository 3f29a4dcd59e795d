"""When a cluster knew of no leader: what a leader of it made then was made by one that its etcd has forgotten. Pure.

A leader renews its lease every few seconds, and writes only while it does. So whatever it makes elsewhere is younger
than what its own cluster remembers of it only where a backup of that cluster was restored, or a copy of it started.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from agent.base.clock import micro_stamp, parse, stamp

_KEPT = 20
"""More than restarts and upgrades make in the life of most pods."""


class Absence(NamedTuple):
    """From when the last leader that is known could lead no more, to when the next one began."""

    began: datetime
    ended: datetime

    @property
    def token(self) -> str:
        """How users call it."""
        return stamp(self.began)


def read(text: str) -> tuple[Absence, ...]:
    """Absences as `write` has written them; none where that cannot be read."""
    try:
        pairs = msgspec.json.decode(text or "[]", type=list[tuple[str, str]])
        return tuple(Absence(parse(began), parse(ended)) for began, ended in pairs)
    except (msgspec.DecodeError, ValueError):
        return ()


def write(absences: Iterable[Absence]) -> str:
    """Absences as JSON, as the annotation of the Lease has them."""
    return msgspec.json.encode([tuple(map(micro_stamp, absence)) for absence in absences]).decode()


def noted(absences: tuple[Absence, ...], renewed: str, seconds: float, now: datetime) -> tuple[Absence, ...]:
    """With what a lease says when it is taken at `now`: last renewed then, for at most so many seconds.

    That others led for less than twice that time says nothing: it passes whenever a leader dies.
    """
    try:
        began = parse(renewed) + timedelta(seconds=seconds)
    except ValueError:
        return absences
    if now - began <= timedelta(seconds=seconds):
        return absences
    return (*absences, Absence(began, now))[-_KEPT:]


def last_of(absences: Iterable[Absence], moments: Iterable[datetime]) -> Absence | None:
    """The latest absence that one of these moments is in."""
    moments = tuple(moments)
    found = [each for each in absences if any(each.began < moment < each.ended for moment in moments)]
    return max(found, default=None)
