"""Reservation of a chaperon's candidate (mode `reserve`): its holder, and the rounds that have ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agent.api import names

GRACE = timedelta(seconds=5)
"""How long after its end a hold still counts: clocks of replicas differ, and clearing takes a moment."""


@dataclass(frozen=True)
class HoldMark:
    """The annotation `multicluster/hold`: `ID UNTIL`, UNTIL in RFC 3339."""

    id: str
    until: datetime | None = None
    """None when nobody can read it."""

    def __str__(self) -> str:
        until = self.until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.until else ""
        return f"{self.id} {until}"


def hold_mark(annotations: Mapping[str, str]) -> HoldMark | None:
    """The hold that has reserved a candidate, None when none has."""
    text = annotations.get(names.ANNOTATION_HOLD)
    if text is None:
        return None
    name, _, until = text.partition(" ")
    try:
        moment = datetime.fromisoformat(until)
    except ValueError:
        return HoldMark(name)
    return HoldMark(name, moment if moment.tzinfo else None)


def round_of(annotations: Mapping[str, str]) -> int:
    """The round of reservation that the source asks for; the first is 0, and what is no number counts as that."""
    return _number(annotations.get(names.ANNOTATION_RESERVE_ROUND)) or 0


def latest_round(annotations: Mapping[str, str]) -> int:
    """The last round that was asked for, or has ended."""
    return max(round_of(annotations), _number(annotations.get(names.ANNOTATION_RESERVE_ENDED)) or 0)


def round_is_over(annotations: Mapping[str, str]) -> bool:
    """Whether the hold of the round that the source asks for has ended before it was allowed."""
    ended = _number(annotations.get(names.ANNOTATION_RESERVE_ENDED))
    return ended is not None and round_of(annotations) <= ended


def left_behind(annotations: Mapping[str, str]) -> datetime | None:
    """From when on a reservation is one that nobody holds any more, None when there is none to clear.

    Its holder was killed before it could clear it. Reservations without our mark are somebody else's.
    """
    mark = hold_mark(annotations)
    if mark is None or mark.until is None:
        return None
    if names.ANNOTATION_IS_RESERVED not in annotations or names.ANNOTATION_IS_ALLOWED in annotations:
        return None
    return mark.until + GRACE


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None and len(text) < 20 else None
    except ValueError:
        return None
