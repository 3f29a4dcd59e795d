"""Detection of foreign changes to the spec of an applied object. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.api.names.p2code import ANNOTATION_APPLIED

Raw = Mapping[str, Any]

_SCALED = frozenset(("replicas", "parallelism", "completions", "suspend", "paused"))
"""Fields for the amount and time of work, which autoscalers, queues and users may change."""


def overwritten(old: Raw, new: Raw) -> bool:
    """Return whether the spec has changed without a new manifest, which would have another digest."""
    was, now = old["metadata"], new["metadata"]
    if was.get("generation") == now.get("generation") or _digest(was) != _digest(now):
        return False
    return _said(old) != _said(new)


def _digest(metadata: Raw) -> object:
    return (metadata.get("annotations") or {}).get(ANNOTATION_APPLIED)


def _said(obj: Raw) -> Raw:
    return {field: value for field, value in (obj.get("spec") or {}).items() if field not in _SCALED}
