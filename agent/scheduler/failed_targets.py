"""Failed targets: a proxy pod's annotation of the targets that could not take it, with reason, time and count. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.base.clock import parse, stamp
from agent.kube.errors import one_line

REASON_CHARACTERS = 256
"""Maximum characters of a target's reason: some targets are hostile, and some messages list every node."""
REASONS_BYTES, DETAILS_BYTES, ALL_BYTES = 16 << 10, 64 << 10, 192 << 10
"""Limits of the annotation's size: for entries with reasons, for entries with time and count, and for all entries.

The latest attempts keep the most. An entry with only a name still marks its target as tried: untried targets come
first.
"""
ANNOTATIONS_BYTES = 256 << 10
"""Maximum that the API server accepts for all annotations of one object, keys and values together."""
_RESERVED_BYTES = 8 << 10
"""Part of it reserved for later annotations: a claim, feedback of the delegate."""
NOT_KEPT = "it was tried before, and the reason is not kept, since many targets were"
LONGEST_DWELL = timedelta(minutes=10)
FIRST_RETRY, LONGEST_RETRY = timedelta(seconds=1), timedelta(seconds=30)
"""First and longest pause before a pod without a target retries one that refused its chaperon."""


class FailedTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """One target that could not take the pod."""

    reason: str
    at: str = ""
    """Time of the last refusal, RFC 3339; empty if unknown."""
    count: int = 1
    refused: bool = msgspec.field(default=False, name="untaken")
    """True if it accepted no PodChaperon, or created no pod for it, so that its capacity is unknown; False if no
    node fitted.
    """

    def may_repeat_at(self, dwell: timedelta) -> datetime | None:
        """Return when a pod that waits in another target may repeat this one, if it provably has capacity; None: at any
        time.

        The pause doubles with each refusal, up to 10 min. It is constant if the PodChaperon was refused, when
        capacity does not matter.
        """
        if self.refused:
            return self._after(dwell)
        return self._after(min(dwell * 2 ** min(self.count - 1, 16), max(dwell, LONGEST_DWELL)))

    def may_retry_at(self) -> datetime | None:
        """Return when a pod without a target may retry this one; None: at any time."""
        if not self.refused:
            return None
        return self._after(min(FIRST_RETRY * 2 ** min(self.count - 1, 16), LONGEST_RETRY))

    def _after(self, pause: timedelta) -> datetime | None:
        try:
            return parse(self.at) + pause
        except ValueError:
            return None


_decoder = msgspec.json.Decoder(dict[str, FailedTarget | str])


def failed_targets_of(proxy: Mapping[str, Any]) -> dict[str, FailedTarget]:
    """Return the failed targets in the pod's annotation, by virtual node; empty if absent or unreadable."""
    return read_failed_targets((proxy["metadata"].get("annotations") or {}).get(names.ANNOTATION_ATTEMPTS))


def read_failed_targets(text: str | None) -> dict[str, FailedTarget]:
    """As `failed_targets_of`, from the annotation's value."""
    if not text:
        return {}
    try:
        known = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {node: _as_read(attempt) for node, attempt in known.items()}


def _as_read(attempt: FailedTarget | str) -> FailedTarget:
    found = attempt if isinstance(attempt, FailedTarget) else FailedTarget(attempt)
    return found if found.reason else msgspec.structs.replace(found, reason=NOT_KEPT)


def bytes_left(annotations: Mapping[str, str] | None) -> int:
    """Return how many bytes the annotation may have next to the other annotations of its pod; 0 or more."""
    others = sum(
        len(key.encode()) + len(value.encode())
        for key, value in (annotations or {}).items()
        if key != names.ANNOTATION_ATTEMPTS
    )
    return max(0, ANNOTATIONS_BYTES - _RESERVED_BYTES - others)


def with_failed_target(
    known: Mapping[str, FailedTarget],
    node_name: str,
    reason: str,
    now: datetime,
    *,
    refused: bool = False,
    limit: int = ALL_BYTES,
) -> str:
    """Return the annotation's value with one more attempt.

    :param limit: maximum size in bytes
    """
    before = known.get(node_name)
    # The count, and with it the pause, grows only with repeated failures of the same kind.
    count = before.count + 1 if before is not None and before.refused == refused else 1
    attempt = FailedTarget(one_line(reason, REASON_CHARACTERS), stamp(now), count, refused)
    others = sorted((node for node in known if node != node_name), key=lambda node: known[node].at, reverse=True)
    attempts = [(node_name, attempt), *((node, known[node]) for node in others)]
    return msgspec.json.encode(_bounded(attempts, min(limit, ALL_BYTES)), order="deterministic").decode()


def _bounded(attempts: Iterable[tuple[str, FailedTarget]], limit: int) -> dict[str, FailedTarget | str]:
    """Return the attempts that fit, latest first: complete, without the reason, or the name alone."""
    kept: dict[str, FailedTarget | str] = {}
    size = len("{}")
    for node, attempt in attempts:
        brief = msgspec.structs.replace(attempt, reason="")
        named = attempt.reason != NOT_KEPT
        forms: list[tuple[FailedTarget | str, int]] = [(attempt, REASONS_BYTES)] if named else []
        forms += [(brief, DETAILS_BYTES)] if attempt.at else []
        for form, most in (*forms, ("", limit)):
            # Two quotes are encoded already; colon and comma are added.
            length = len(msgspec.json.encode(node)) + len(msgspec.json.encode(form)) + 2
            if size + length <= min(most, limit):
                kept[node] = form
                size += length
                break
    return kept
