"""Pods that were annotated to be elected after they had been created, which changes nothing. Pure."""

from typing import Any

import msgspec

from agent.api.names import ELECT, PREFIX, SHORT_PREFIX

_KEYS = (f"f:{PREFIX}{ELECT}", f"f:{SHORT_PREFIX}{ELECT}")


def elected_later(pod: bytes) -> bool:
    """Return True if all who own the annotation, by the pod's managedFields, wrote it after the pod's creation.

    :param pod: as an API server sent it
    """
    metadata: dict[str, Any] = msgspec.json.decode(pod)["metadata"]
    times = [
        str(entry.get("time") or "")
        for entry in metadata.get("managedFields") or ()
        if any(key in _annotations(entry) for key in _KEYS)
    ]
    # Both are stamps of the same form and time zone, to the second.
    return bool(times) and all(time > str(metadata.get("creationTimestamp") or "") for time in times)


def _annotations(entry: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {}
    return found
