"""Fences by a Lease: when a delegate is gone whose source cannot be heard in its target. Pure.

Both sides count from the same renewal, each by a clock of its own that is never set. The source renews the Lease in the
target for as long as that answers. The target's agent stops the delegates when it has seen no renewal for `term`
seconds, and says on the chaperon in how many seconds after a renewal its delegate is gone: the term, and the grace of
the pod. The source starts others that much, and a margin, after the last renewal that it may have sent.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from agent.api import names
from agent.api.names import fencing

DEFAULT_TERM_SECONDS = 60.0
UNKNOWN_SECONDS = 25.0
"""For so long, two renewals and a half, one is waited for of which nobody knows when the last was."""
INTERVAL_SECONDS = 10.0
_SHARE = 6
"""So many renewals are missed at least before the term is over."""
_DEFAULT_GRACE = 30


class Promise(NamedTuple):
    """What a target's agent has said on a chaperon."""

    replica: str
    seconds: float
    """After a renewal the delegate is gone, if no other is seen."""


class Seen(NamedTuple):
    """The last renewal of a Lease that was seen. Moments are of a clock that is never set."""

    renewal: str
    at: float
    """From when it counts."""
    seen: float
    """When it was seen first."""
    term: float = DEFAULT_TERM_SECONDS
    """For how many seconds it lets delegates run."""

    def left(self, now: float) -> float:
        """For how many seconds they may run yet."""
        return max(0.0, self.at + self.term - now)


def asked(levels: Iterable[Mapping[str, str] | None]) -> bool:
    """Whether a pod is to be fenced.

    :param levels: annotations of the pod, its owners and its namespace, in this order; the first that says it counts
    """
    for annotations in levels:
        value = said(annotations)
        if value is not None:
            return value == fencing.LEASE
    return False


def said(annotations: Mapping[str, str] | None) -> str | None:
    """Return what annotations say of a fence, None if nothing that is understood."""
    value = names.annotation(annotations, fencing.FENCE)
    return value if value in fencing.FENCES else None


def interval(term: float) -> float:
    """Seconds between two renewals."""
    return min(INTERVAL_SECONDS, term / _SHARE)


def grace_of(pod_spec: Mapping[str, Any] | None) -> int:
    """Seconds that a pod may take to end; 0 or more."""
    grace = (pod_spec or {}).get("terminationGracePeriodSeconds")
    return max(0, grace if isinstance(grace, int) else _DEFAULT_GRACE)


def promise(replica: str, term: float, pod_spec: Mapping[str, Any], delegate: Mapping[str, Any] | None = None) -> str:
    """What a target's agent says on a chaperon.

    :param pod_spec: of the chaperon
    :param delegate: the delegate's own spec, None if none exists: a webhook in the target may have changed it
    """
    grace = max(grace_of(pod_spec), grace_of(delegate) if delegate is not None else 0)
    return f"{replica} {math.ceil(term) + grace}"


def covers(promised: Promise, term: float, pod_spec: Mapping[str, Any]) -> bool:
    """Return True if a promise may be of this term. A shorter one was made for a shorter term.

    :param pod_spec: of the chaperon
    """
    return promised.seconds >= math.ceil(term) + grace_of(pod_spec)


def promised_grace(text: str | None, term: float, pod_spec: Mapping[str, Any]) -> int | None:
    """Seconds that a stopped delegate may take to end, by what was promised; None if nothing was.

    :param text: of the annotation on the chaperon
    :param pod_spec: of the chaperon, whose grace every valid promise includes
    """
    found = promised(text)
    return max(int(found.seconds) - math.ceil(term), grace_of(pod_spec)) if found is not None else None


class Ending(NamedTuple):
    """How to delete a delegate whose fence has fallen."""

    grace: int | None
    """Seconds; None for the delegate's own."""


def ending(allowed: int | None, own: int, ends_in: float | None) -> Ending | None:
    """Decide how to delete a delegate. Return None if it ends in time already.

    :param allowed: seconds that it may take; None for any
    :param own: seconds of its own spec
    :param ends_in: seconds until its grace is over; None if it has not been deleted yet
    """
    # The API server removes a pod with a grace of 0 at once, while its containers may still run.
    least = None if allowed is None else max(1, allowed)
    if ends_in is None:
        return Ending(least if least is not None and own > least else None)
    return Ending(least) if least is not None and ends_in > least + _ROUNDED_SECONDS else None


_ROUNDED_SECONDS = 2.0
"""Timestamps of deletions are whole seconds, and the clocks of two machines are compared by answers of one second."""


def promised(text: str | None) -> Promise | None:
    """The same, read; None for what no agent of ours has written."""
    replica, _, number = (text or "").rpartition(" ")
    seconds = kept(number)
    return Promise(replica, seconds) if replica and seconds is not None else None


def kept(text: str | None) -> float | None:
    """Seconds as they are written on proxy pods, None where there are none."""
    if not text or not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        return None
    return float(text)


_DIGITS = 9


def see(before: Seen | None, lease: Mapping[str, Any] | None, now: float, server: datetime) -> Seen:
    """What is known after a look at a Lease; None: there is none.

    A renewal counts from when it was written, as far as the API server tells: who looks may be late, or have begun just
    now. It is younger than the one that was seen before it, whatever clocks say. Where the API server does not tell, it
    counts from when it was seen; the first may be old then, and has to be followed by another soon.

    :param server: the moment by the API server's clock, of which only what has passed since the write matters
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
    """How many seconds ago a Lease was renewed by the API server's own clock, None where it does not tell."""
    for entry in metadata.get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:renewTime" in fields and entry.get("time"):
            try:
                return max(0.0, (server - datetime.fromisoformat(entry["time"])).total_seconds())
            except (TypeError, ValueError):
                return None
    return None


def left(seconds: float, since: float, margin: float, now: float) -> float:
    """In how many seconds nothing of a fenced pod runs any more; 0 for nothing does.

    :param seconds: after a renewal the delegate is gone, as its target has said
    :param since: when the last renewal may have been sent
    :param margin: how much later a renewal may arrive, and be seen
    """
    return max(0.0, since + seconds + margin - now)
