"""Whether somebody may have written into the spec of an object that was applied. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.api.names.p2code import ANNOTATION_APPLIED

Raw = Mapping[str, Any]

_SCALED = frozenset(("replicas", "parallelism", "completions", "suspend", "paused"))
"""How much is to run, and when: autoscalers, queues and people may say that."""


def overwritten(old: Raw, new: Raw) -> bool:
    """Whether another spec has come by other means than another manifest, which would have another digest."""
    was, now = old["metadata"], new["metadata"]
    if was.get("generation") == now.get("generation") or _digest(was) != _digest(now):
        return False
    return _said(old) != _said(new)


def _digest(metadata: Raw) -> object:
    return (metadata.get("annotations") or {}).get(ANNOTATION_APPLIED)


def _said(obj: Raw) -> Raw:
    return {field: value for field, value in (obj.get("spec") or {}).items() if field not in _SCALED}
