"""Wall time, injected, so that tests can choose it. Delays use the event loop's own time."""

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of the time of day."""

    def now(self) -> datetime:
        """Return the current time, with time zone."""
        ...


class SystemClock:
    """The clock of the machine that we run on."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the time it was last set to."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward by some seconds."""
        self._now += timedelta(seconds=seconds)


def stamp(moment: datetime) -> str:
    """RFC 3339 with seconds, as metav1.Time is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(moment: datetime) -> str:
    """RFC 3339 with microseconds, as metav1.MicroTime is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> datetime:
    """Read metav1.Time or MicroTime.

    Raises ValueError when the text is not RFC 3339.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time zone missing in {text!r}")
    return moment
