"""Reservation of a chaperon's candidate (mode `reserve`): its holder, and the rounds that have ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agent.api import names

GRACE = timedelta(seconds=5)
"""Time for which an expired hold still counts: clocks of replicas differ, and clearing it takes a moment."""


@dataclass(frozen=True)
class HoldMark:
    """The annotation `multicluster/hold`: `ID UNTIL`, UNTIL in RFC 3339."""

    id: str
    until: datetime | None = None
    """Expiry; None if it cannot be parsed."""

    def __str__(self) -> str:
        until = self.until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.until else ""
        return f"{self.id} {until}"


def hold_mark(annotations: Mapping[str, str]) -> HoldMark | None:
    """Return the hold that has reserved a candidate, None if it is not reserved."""
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
    """Return the round of reservation that the source requests; the first is 0, like an invalid number."""
    return _number(annotations.get(names.ANNOTATION_RESERVE_ROUND)) or 0


def latest_round(annotations: Mapping[str, str]) -> int:
    """Return the last round that was requested, or has ended."""
    return max(round_of(annotations), _number(annotations.get(names.ANNOTATION_RESERVE_ENDED)) or 0)


def round_is_over(annotations: Mapping[str, str]) -> bool:
    """Return whether the requested round's hold has ended before the candidate was allowed."""
    ended = _number(annotations.get(names.ANNOTATION_RESERVE_ENDED))
    return ended is not None and round_of(annotations) <= ended


def left_behind(annotations: Mapping[str, str]) -> datetime | None:
    """Return the time from which a reservation counts as abandoned; None if there is none to clear.

    Its holder was killed before it could clear it. Reservations without this mark are not Flotilla's.
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
