"""Renewals of a lease that are under way at the same time. No I/O."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

Patch = list[dict[str, Any]]


class Moment(NamedTuple):
    """Point in time by two clocks: the monotonic one, in seconds, and the time of day."""

    monotonic: float
    day: datetime


def mark(holder: str, renewed: str) -> str:
    """Return what tells the states of a lease apart: `renewed` is the renewTime that the holder has written."""
    return f"{holder} {renewed}"


def mark_of(spec: Mapping[str, Any]) -> str:
    """Return the mark of a lease, by its spec."""
    return mark(str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""))


def renewal(holder: str, base: str, renewed: str, seconds: int) -> Patch:
    """Return a JSON Patch that renews a lease, and fails unless the lease is in the state `base`."""
    return [
        {"op": "test", "path": "/spec/holderIdentity", "value": holder},
        {"op": "test", "path": "/spec/renewTime", "value": base.removeprefix(mark(holder, ""))},
        {"op": "replace", "path": "/spec/renewTime", "value": renewed},
        {"op": "replace", "path": "/spec/leaseDurationSeconds", "value": seconds},
    ]


class Renewals:
    """Renewals that have been sent, and the moment from which the lease is ours for its duration.

    Each renewal tests for the state that the one before leaves, so a renewal need not wait for the answer to another.
    Other candidates count the duration from when a renewal is written. That is after the renewal was sent, and after
    each later read that shows the state before it: admission webhooks may hold up a write for longer than a read.
    """

    def __init__(self, now: Moment) -> None:
        self.moment = now
        """The latest moment before which the last confirmed renewal was certainly not written."""
        self._confirmed = ""
        """Mark of the state that the lease was last known to be in; empty if it did not exist."""
        self._pending: dict[str, Moment] = {}
        """Marks of renewals without an answer, in the order of sending, with the same moment for each."""

    @property
    def tip(self) -> str:
        """Mark of the lease's state after all sent renewals have been written."""
        return next(reversed(self._pending), self._confirmed)

    @property
    def pending(self) -> bool:
        """Whether a renewal waits for its answer."""
        return bool(self._pending)

    @property
    def latest(self) -> Moment:
        """The moment of the renewals, had all of them been confirmed."""
        return max(self.moment, *self._pending.values()) if self._pending else self.moment

    def rebase(self, found: str) -> None:
        """Record a state of another writer, from which the next renewal starts."""
        self._confirmed = found

    def sent(self, new: str, now: Moment) -> None:
        """Note a renewal."""
        self._pending[new] = now

    def written(self, new: str) -> None:
        """Note that the lease has the state of a renewal: all before it are over, too."""
        if new not in self._pending:
            return
        self.moment = max(self.moment, self._pending[new])
        self._confirmed = new
        for each in list(self._pending):
            del self._pending[each]
            if each == new:
                return

    def failed(self, new: str) -> None:
        """Note that a renewal was refused, or that its outcome is unknown."""
        self._pending.pop(new, None)

    def seen(self, found: str, asked: Moment) -> bool:
        """Note the state that a read has shown, which was sent at `asked`. Return False for a state that is not known.

        Renewals without an answer had not been written at that moment.
        """
        if found in self._pending:
            self.written(found)
        elif found != self._confirmed:
            return False
        self._pending = {each: max(moment, asked) for each, moment in self._pending.items()}
        return True
