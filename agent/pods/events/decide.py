"""The copy of a delegate's event for its proxy pod: pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

Raw = dict[str, Any]

_NAME_LIMIT = 200
_MESSAGE_LIMIT = 1024


def retold(event: Mapping[str, Any], proxy: Mapping[str, Any], target: str) -> Raw:
    """Return a Warning for the proxy pod with the same reason; its message starts with target and node.

    Its name is derived from the delegate's event and the proxy pod, so that it is created once only.
    """
    metadata = proxy["metadata"]
    about = f"{event['metadata'].get('uid')}/{metadata['uid']}"
    node = (event.get("source") or {}).get("host") or ""
    where = f"{target}/{node}" if node else target
    message = event.get("message") or event.get("note") or ""
    first = event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    base = metadata["name"][:_NAME_LIMIT].rstrip("-.")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{base}.{hashlib.sha256(about.encode()).hexdigest()[:16]}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": "Warning",
        "reason": event.get("reason") or "Delegate",
        "message": f"[{where}] {message}"[:_MESSAGE_LIMIT],
        "source": {"component": (event.get("source") or {}).get("component") or "flotilla", "host": where},
        "reportingComponent": event.get("reportingComponent") or "flotilla",
        "firstTimestamp": first,
        "lastTimestamp": event.get("lastTimestamp") or first,
        "count": 1,
    }
