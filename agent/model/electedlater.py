"""Pods that got the annotation `elect` only after their creation, when it has no effect. Pure."""

from typing import Any

import msgspec

from agent.api.names import ELECT, PREFIX, SHORT_PREFIX

_KEYS = (f"f:{PREFIX}{ELECT}", f"f:{SHORT_PREFIX}{ELECT}")


def elected_later(pod: bytes) -> bool:
    """Return True if all managers of the annotation, by managedFields, wrote it after the pod's creation.

    :param pod: JSON from the API server
    """
    metadata: dict[str, Any] = msgspec.json.decode(pod)["metadata"]
    times = [
        str(entry.get("time") or "")
        for entry in metadata.get("managedFields") or ()
        if any(key in _annotations(entry) for key in _KEYS)
    ]
    # Both timestamps have the same format and time zone, so that texts compare like times.
    return bool(times) and all(time > str(metadata.get("creationTimestamp") or "") for time in times)


def _annotations(entry: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {}
    return found
