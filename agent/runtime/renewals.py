"""Renewals of a lease that are under way at the same time. No I/O.

Each requires the last write that is known to have succeeded, and none that has no answer yet: a renewal that is lost,
or overtaken by a later one, makes no other fail.
"""

import itertools
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from agent.api.names.derived import RENEWAL

Patch = list[dict[str, Any]]


class Moment(NamedTuple):
    """Point in time by two clocks: the monotonic one, in seconds, and the time of day."""

    monotonic: float
    day: datetime


class Mark(NamedTuple):
    """Annotation that a write leaves on the lease, so that later writes can test for it.

    Writes that may still be carried out, and marks that writes without an answer test for, have different slots.
    """

    slot: int
    renewed: str
    """The renewTime that was written with it."""

    @property
    def annotation(self) -> str:
        """Name of the annotation."""
        return f"{RENEWAL}{self.slot}"


class Found(NamedTuple):
    """State of the lease, as a read has shown it; with empty fields if the lease does not exist."""

    holder: str = ""
    renewed: str = ""
    """Its renewTime."""
    annotations: Mapping[str, str] = {}

    @classmethod
    def of(cls, lease: Mapping[str, Any]) -> "Found":
        """Return the state of a Lease object."""
        spec, annotations = lease.get("spec") or {}, lease["metadata"].get("annotations") or {}
        return cls(str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""), annotations)

    def bears(self, mark: Mark) -> bool:
        """Return True if a write has left its mark."""
        return self.annotations.get(mark.annotation) == mark.renewed


def renewal(holder: str, base: Mark, new: Mark, seconds: int) -> Patch:
    """Return a JSON Patch that renews a lease, and fails unless the holder has it and it bears the mark `base`."""
    at, there = (f"/metadata/annotations/{each.annotation.replace('/', '~1')}" for each in (base, new))
    return [
        {"op": "test", "path": "/spec/holderIdentity", "value": holder},
        {"op": "test", "path": at, "value": base.renewed},
        {"op": "replace", "path": "/spec/renewTime", "value": new.renewed},
        {"op": "replace", "path": "/spec/leaseDurationSeconds", "value": seconds},
        {"op": "add", "path": there, "value": new.renewed},
    ]


class _Sent(NamedTuple):
    moment: Moment
    """A moment before which the write was certainly not carried out."""
    base: Mark | None
    """The mark that it tests for; None if it replaces the lease by another test."""


class Renewals:
    """Renewals that have been sent, and the moment from which the lease is ours for its duration.

    Other candidates count the duration from when a renewal is written. That is after the renewal was sent, and after
    each later read that shows the state before it: admission webhooks may hold up a write for longer than a read.
    """

    def __init__(self, holder: str, now: Moment) -> None:
        self.moment = now
        """The latest moment before which the last confirmed renewal was certainly not written."""
        self._holder = holder
        self.confirmed: Mark | None = None
        """The mark of a write that has succeeded; None if there was none since the lease was not ours."""
        self._before = Found()
        """State of the lease before it became ours."""
        self._pending: dict[Mark, _Sent] = {}
        """Writes without an answer, in the order of sending."""
        self._failed: dict[Mark, Mark | None] = {}
        """Writes that may be carried out late, since the lease may bear the mark that they test for, with that mark."""

    @property
    def base(self) -> Mark | None:
        """Mark that the next renewal tests for; None if there is none that the lease bears or may bear."""
        taking = (mark for mark, sent in reversed(self._pending.items()) if sent.base is None)
        return self.confirmed or next(taking, None)

    @property
    def pending(self) -> bool:
        """Whether a write waits for its answer."""
        return bool(self._pending)

    @property
    def latest(self) -> Moment:
        """The moment of the renewals, had all of them been confirmed."""
        return max(self.moment, *(each.moment for each in self._pending.values())) if self._pending else self.moment

    def next(self, renewed: str) -> Mark:
        """Return the mark for another write."""
        used = {self.confirmed, *self._failed, *self._pending, *(each.base for each in self._pending.values())}
        slots = {each.slot for each in used if each is not None}
        return Mark(next(slot for slot in itertools.count() if slot not in slots), renewed)

    def rebase(self, found: Found) -> None:
        """Record a state that the next write replaces, and that may not be one of ours."""
        self.confirmed, self._before = None, found

    def sent(self, new: Mark, base: Mark | None, now: Moment) -> None:
        """Note a write."""
        self._pending[new] = _Sent(now, base)

    def written(self, new: Mark) -> None:
        """Note that a write has succeeded."""
        sent = self._pending.pop(new, None)
        if sent is not None:
            self.moment = max(self.moment, sent.moment)
            self.confirmed = new
            self._failed = {
                mark: base for mark, base in self._failed.items() if base is not None and base.slot != new.slot
            }

    def failed(self, new: Mark) -> None:
        """Note that a write was refused, or that its outcome is unknown."""
        sent = self._pending.pop(new, None)
        if sent is not None:
            self._failed[new] = sent.base

    def seen(self, found: Found, asked: Moment) -> bool:
        """Note the state that a read has shown, which was sent at `asked`. Return False for a state that is not known.

        If it is the state of the last write that is known, those without an answer had not been written at that moment.
        """
        ours = found.holder == self._holder
        borne = [mark for mark in self._pending if ours and found.bears(mark)]
        for mark in sorted(borne, key=lambda mark: mark.renewed == found.renewed):
            self.written(mark)
        if self.confirmed is None:
            known = is_last = found[:2] == self._before[:2]
        else:
            known, is_last = ours and found.bears(self.confirmed), found.renewed == self.confirmed.renewed
        if known and is_last:
            for mark, sent in self._pending.items():
                self._pending[mark] = sent._replace(moment=max(sent.moment, asked))
        return known
