"""Status that a chaperon reports of its pod, and when that is worth a write. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api.names import delegates
from agent.model.status import restarts_always, with_ended, with_restarts
from agent.model.terminating import not_ready
from agent.pods.chaperon.refusals import with_gates


def status_of(chaperon: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a chaperon, computed from its pod.

    A terminating pod that runs to completion is not ready. Any other keeps Ready, as its proxy pod terminates, too:
    kube-proxy falls back to ready terminating endpoints if a Service has no others (KEP-1669).
    """
    before = chaperon.get("status") or {}
    restarts = _restarts(chaperon["metadata"].get("annotations") or {})
    status = with_ended(with_restarts(with_gates(pod), restarts), pod, before)
    terminates = "deletionTimestamp" in pod["metadata"] and not restarts_always(chaperon)
    return not_ready(status, pod) if terminates else status


def worth_telling(status: Mapping[str, Any]) -> bool:
    """Return whether a delegate's status contains more than its creation. Saves a write for each pod."""
    return status.get("phase") != "Pending" or bool(status.get("conditions"))


def is_news(chaperon: Mapping[str, Any], pod: Mapping[str, Any] | None) -> bool:
    """Return whether the delegate has just got a node, and neither kubelet nor chaperon has reported anything since.

    The kubelet's first status follows within milliseconds to seconds. Reporting both at once saves a write in the
    target and a reconciliation in the source for each pod.
    """
    if (chaperon.get("status") or {}).get("conditions"):
        return False
    status = (pod or {}).get("status") or {}
    return (
        status.get("phase") == "Pending"
        and [c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"] == ["PodScheduled"]
        and not status.get("containerStatuses")
    )


def _restarts(annotations: Mapping[str, str]) -> dict[str, int]:
    try:
        return msgspec.json.decode(annotations.get(delegates.ANNOTATION_RESTARTS, "{}"), type=dict[str, int])
    except msgspec.DecodeError:
        return {}
