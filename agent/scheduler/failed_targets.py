"""Failed targets: an annotation of the proxy pod tells which targets could not take it, why, when, how often. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.base.clock import parse, stamp
from agent.kube.errors import one_line

REASON_CHARACTERS = 256
"""Longest reason that is kept of a target: some targets are hostile, and some messages list every node."""
REASONS_BYTES, DETAILS_BYTES, ALL_BYTES = 16 << 10, 64 << 10, 192 << 10
"""Size of the annotation up to which entries keep their reasons, up to which they keep time and count, and at most.

The latest attempts keep most. An entry that is only a name still tells which targets were tried: the others come first.
"""
ANNOTATIONS_BYTES = 256 << 10
"""Most that the API server takes as annotations of one object, keys and values together."""
_RESERVED_BYTES = 8 << 10
"""Of these, for what else is written later: a claim, feedback of the delegate."""
NOT_KEPT = "it was tried before, and the reason is not kept, since many targets were"
LONGEST_DWELL = timedelta(minutes=10)
FIRST_RETRY, LONGEST_RETRY = timedelta(seconds=1), timedelta(seconds=30)
"""Pauses of a pod that is nowhere, until it asks a target again that did not take it."""


class FailedTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """One target that could not take the pod."""

    reason: str
    at: str = ""
    """When it refused last, RFC 3339; empty: unknown."""
    count: int = 1
    refused: bool = msgspec.field(default=False, name="untaken")
    """It took no PodChaperon, or made no pod of it, so that nothing is known of its nodes; else they had no room."""

    def may_repeat_at(self, dwell: timedelta) -> datetime | None:
        """When a pod that waits elsewhere may try it again, where it provably has room: each time the pause is twice as
        long, up to 10 min. Where the PodChaperon was not taken, room says nothing and the pause stays the same.

        None: at any time.
        """
        if self.refused:
            return self._after(dwell)
        return self._after(min(dwell * 2 ** min(self.count - 1, 16), max(dwell, LONGEST_DWELL)))

    def may_retry_at(self) -> datetime | None:
        """When a pod that is nowhere may try it again, None at any time."""
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
    """By virtual node, from the proxy pod's annotation; what cannot be read is forgotten."""
    return read_failed_targets((proxy["metadata"].get("annotations") or {}).get(names.ANNOTATION_ATTEMPTS))


def read_failed_targets(text: str | None) -> dict[str, FailedTarget]:
    """The same from the annotation's value."""
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
    """Return how many bytes the annotation may have beside the other annotations of its pod; 0 or more."""
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
    """The annotation's value with one more attempt.

    :param limit: bytes that it may have
    """
    before = known.get(node_name)
    # Pauses grow by what goes wrong again and again.
    count = before.count + 1 if before is not None and before.refused == refused else 1
    attempt = FailedTarget(one_line(reason, REASON_CHARACTERS), stamp(now), count, refused)
    others = sorted((node for node in known if node != node_name), key=lambda node: known[node].at, reverse=True)
    attempts = [(node_name, attempt), *((node, known[node]) for node in others)]
    return msgspec.json.encode(_bounded(attempts, min(limit, ALL_BYTES)), order="deterministic").decode()


def _bounded(attempts: Iterable[tuple[str, FailedTarget]], limit: int) -> dict[str, FailedTarget | str]:
    """Return what fits of some attempts, the latest first: with everything, without the reason, the name alone."""
    kept: dict[str, FailedTarget | str] = {}
    size = len("{}")
    for node, attempt in attempts:
        brief = msgspec.structs.replace(attempt, reason="")
        named = attempt.reason != NOT_KEPT
        forms: list[tuple[FailedTarget | str, int]] = [(attempt, REASONS_BYTES)] if named else []
        forms += [(brief, DETAILS_BYTES)] if attempt.at else []
        for form, most in (*forms, ("", limit)):
            # With quotes, colon and comma.
            length = len(msgspec.json.encode(node)) + len(msgspec.json.encode(form)) + 2
            if size + length <= min(most, limit):
                kept[node] = form
                size += length
                break
    return kept
