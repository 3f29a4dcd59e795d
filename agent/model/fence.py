"""Lease fences: when a delegate has certainly stopped although source and target are disconnected. Pure.

The source's agent renews a Lease in the target while the target answers. The target's agent stops the delegates if it
has observed no renewal for `term` seconds. It promises this on the chaperon: the delegate is stopped within the term
plus the pod's grace period after a renewal. The source starts a replacement that long, plus a margin, after the last
renewal that it may have sent. Both agents count from the same renewal, each by its own monotonic clock.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from agent.api import names
from agent.api.names import fencing

DEFAULT_TERM_SECONDS = 60.0
UNKNOWN_SECONDS = 25.0
"""Seconds to wait for another renewal if the age of the last one is unknown: two and a half intervals."""
INTERVAL_SECONDS = 10.0
_SHARE = 6
"""Minimum number of renewals within one term."""
_DEFAULT_GRACE = 30


class Promise(NamedTuple):
    """Promise of the target's agent to stop a delegate, from the chaperon's annotation."""

    replica: str
    seconds: float
    """Seconds after the last renewal until the delegate has certainly stopped."""


class Seen(NamedTuple):
    """Last observed renewal of a Lease. Times are of a monotonic clock, in seconds."""

    renewal: str
    at: float
    """Time from which the term counts."""
    seen: float
    """Time at which the agent first observed the renewal."""
    term: float = DEFAULT_TERM_SECONDS
    """Seconds for which delegates may run after the renewal."""

    def left(self, now: float) -> float:
        """Return for how many more seconds delegates may run; 0 if the term is over."""
        return max(0.0, self.at + self.term - now)


def asked(levels: Iterable[Mapping[str, str] | None]) -> bool:
    """Return True if a pod is to be fenced.

    :param levels: annotations of the pod, its owners and its namespace, in this order; the first valid value counts
    """
    for annotations in levels:
        value = said(annotations)
        if value is not None:
            return value == fencing.LEASE
    return False


def said(annotations: Mapping[str, str] | None) -> str | None:
    """Return the value of the fence annotation, None if it is missing or unknown."""
    value = names.annotation(annotations, fencing.FENCE)
    return value if value in fencing.FENCES else None


def interval(term: float) -> float:
    """Return the seconds between two renewals."""
    return min(INTERVAL_SECONDS, term / _SHARE)


def grace_of(pod_spec: Mapping[str, Any] | None) -> int:
    """Return a pod's grace period in seconds; 30 if its spec has none."""
    grace = (pod_spec or {}).get("terminationGracePeriodSeconds")
    return max(0, grace if isinstance(grace, int) else _DEFAULT_GRACE)


def promise(replica: str, term: float, pod_spec: Mapping[str, Any], delegate: Mapping[str, Any] | None = None) -> str:
    """Return the text of a promise: replica and seconds.

    :param pod_spec: spec of the chaperon
    :param delegate: spec of the delegate, which a webhook in the target may have changed; None if none exists
    """
    grace = max(grace_of(pod_spec), grace_of(delegate) if delegate is not None else 0)
    return f"{replica} {math.ceil(term) + grace}"


def covers(promised: Promise, term: float, pod_spec: Mapping[str, Any]) -> bool:
    """Return True if a promise is valid for a term. A promise of fewer seconds was made for a shorter term.

    :param pod_spec: spec of the chaperon
    """
    return promised.seconds >= math.ceil(term) + grace_of(pod_spec)


def promised_grace(text: str | None, term: float, pod_spec: Mapping[str, Any]) -> int | None:
    """Return the grace period of a stopped delegate that a promise includes, in seconds; None without a promise.

    :param text: value of the chaperon's annotation
    :param pod_spec: spec of the chaperon, whose grace period every valid promise includes
    """
    found = promised(text)
    return max(int(found.seconds) - math.ceil(term), grace_of(pod_spec)) if found is not None else None


class Ending(NamedTuple):
    """Deletion of a delegate whose term is over."""

    grace: int | None
    """Grace period in seconds; None for the delegate's own."""


def ending(allowed: int | None, own: int, ends_in: float | None) -> Ending | None:
    """Decide how to delete a delegate. Return None if a deletion in progress ends in time.

    :param allowed: longest grace period in seconds; None for any
    :param own: grace period of its spec, in seconds
    :param ends_in: seconds until its grace period is over; None if it has not been deleted yet
    """
    # The API server removes a pod with grace period 0 at once, while its containers may still run.
    least = None if allowed is None else max(1, allowed)
    if ends_in is None:
        return Ending(least if least is not None and own > least else None)
    return Ending(least) if least is not None and ends_in > least + _ROUNDED_SECONDS else None


_ROUNDED_SECONDS = 2.0
"""Tolerance: deletion timestamps are whole seconds, and so is the Date header that clocks are compared by."""


def promised(text: str | None) -> Promise | None:
    """Parse the text of a promise; return None if it is missing or invalid."""
    replica, _, number = (text or "").rpartition(" ")
    seconds = kept(number)
    return Promise(replica, seconds) if replica and seconds is not None else None


def kept(text: str | None) -> float | None:
    """Parse seconds from an annotation; return None if the text is missing or no decimal number."""
    if not text or not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        return None
    return float(text)


_DIGITS = 9


def see(before: Seen | None, lease: Mapping[str, Any] | None, now: float, server: datetime) -> Seen:
    """Return the last observed renewal after reading a Lease.

    A renewal counts from the time in managedFields, because the agent may read the Lease late. It never counts from
    before the previous renewal was observed. Without that time it counts from now. The first renewal may be old in that
    case, so only UNKNOWN_SECONDS of its term are left.

    :param lease: None if the Lease does not exist
    :param now: time by the monotonic clock, in seconds
    :param server: current time by the API server's clock, for the age of the renewal
    """
    spec = (lease or {}).get("spec") or {}
    metadata = (lease or {}).get("metadata") or {}
    renewal = f"{metadata.get('uid', '')} {spec.get('renewTime', '')}"
    duration = spec.get("leaseDurationSeconds")
    term = float(duration) if isinstance(duration, int) and duration > 0 else DEFAULT_TERM_SECONDS
    if before is not None and (before.renewal == renewal or lease is None):
        return before
    ago = age(metadata, server)
    if before is not None:
        return Seen(renewal, max(before.seen, now - (ago or 0.0)), now, term)
    return Seen(renewal, now - (max(0.0, term - UNKNOWN_SECONDS) if ago is None else ago), now, term)


def age(metadata: Mapping[str, Any], server: datetime) -> float | None:
    """Return the age of a Lease's renewal in seconds, by the API server's clock; None without a valid time.

    :param metadata: metadata of the Lease; managedFields has the time of the write
    """
    for entry in metadata.get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:renewTime" in fields and entry.get("time"):
            try:
                return max(0.0, (server - datetime.fromisoformat(entry["time"])).total_seconds())
            except (TypeError, ValueError):
                return None
    return None


def left(seconds: float, since: float, margin: float, now: float) -> float:
    """Return the seconds until a fenced pod has certainly stopped; 0 if it has.

    :param seconds: seconds from a renewal until the delegate has stopped, as the target's agent promised
    :param since: time at which the source may have sent the last renewal
    :param margin: longest delay in seconds until the target's agent observes a renewal
    """
    return max(0.0, since + seconds + margin - now)
