"""The memory of attempts, kept on the proxy pod: which targets could not take it, why, when, how often. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.base.clock import parse, stamp

LONGEST_DWELL = timedelta(minutes=10)


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of one target."""

    reason: str
    at: str = ""
    """When it refused last, RFC 3339; empty: unknown."""
    count: int = 1

    def may_repeat_at(self, dwell: timedelta) -> datetime | None:
        """When it may be tried again where it provably has room: each time the pause is twice as long, up to 10 min.

        None: at any time.
        """
        try:
            at = parse(self.at)
        except ValueError:
            return None
        pause: timedelta = min(dwell * 2 ** min(self.count - 1, 16), max(dwell, LONGEST_DWELL))
        return at + pause


_decoder = msgspec.json.Decoder(dict[str, Attempt | str])


def attempts_of(proxy: Mapping[str, Any]) -> dict[str, Attempt]:
    """By virtual node, from the proxy pod's annotation; what cannot be read is forgotten."""
    return read_attempts((proxy["metadata"].get("annotations") or {}).get(names.ANNOTATION_ATTEMPTS))


def read_attempts(text: str | None) -> dict[str, Attempt]:
    """The same from the annotation's value."""
    if not text:
        return {}
    try:
        known = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {node: attempt if isinstance(attempt, Attempt) else Attempt(attempt) for node, attempt in known.items()}


def with_attempt(known: Mapping[str, Attempt], node_name: str, reason: str, now: datetime) -> str:
    """The annotation's value with one more attempt."""
    before = known.get(node_name)
    attempt = Attempt(reason, stamp(now), before.count + 1 if before else 1)
    return msgspec.json.encode({**known, node_name: attempt}, order="deterministic").decode()
