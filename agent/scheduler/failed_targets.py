"""Failed targets: an annotation of the proxy pod tells which targets could not take it, why, when, how often. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.base.clock import parse, stamp

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
    return {
        node: attempt if isinstance(attempt, FailedTarget) else FailedTarget(attempt) for node, attempt in known.items()
    }


def with_failed_target(
    known: Mapping[str, FailedTarget], node_name: str, reason: str, now: datetime, *, refused: bool = False
) -> str:
    """The annotation's value with one more attempt."""
    before = known.get(node_name)
    # Pauses grow by what goes wrong again and again.
    count = before.count + 1 if before is not None and before.refused == refused else 1
    attempt = FailedTarget(reason, stamp(now), count, refused)
    return msgspec.json.encode({**known, node_name: attempt}, order="deterministic").decode()
