"""Deletion of a proxy pod: the delegate's grace period, and the annotations of the chaperon about it. Pure.

The spec of a proxy pod has a grace period of 0 (wire contract), or that of its longest `sleep` hook. A deletion without
an explicit grace period therefore has this value, and grants the delegate the grace period of its own spec. Any other
value was requested by the user: `kubectl delete --grace-period=3`, `--now`, an eviction with a grace period.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import is_true
from agent.api.names.endings import ANNOTATION_GRACE_PERIOD
from agent.model.livechanges import told
from agent.model.owner_labels import controller_of
from agent.model.podstate import has_ended

Raw = dict[str, Any]

LEAST_SECONDS = 1
"""Shortest grace period of a delegate: 0 would remove it from its target before its containers have ended."""
_DEFAULT_SECONDS = 30
_ENDS = {names.ANNOTATION_POD_ENDING, names.ANNOTATION_POD_MISSING_SINCE}
"""Annotations of a chaperon whose delegate is terminating or missing in the target."""
_LIMIT = 2**31


def own_seconds(chaperon: Mapping[str, Any]) -> int:
    """Return the grace period in a delegate's spec, in seconds; 30 if it has none."""
    found = (chaperon.get("spec") or {}).get("terminationGracePeriodSeconds")
    return found if isinstance(found, int) else _DEFAULT_SECONDS


def asked_seconds(proxy: Mapping[str, Any]) -> int:
    """Return the grace period of a proxy pod's deletion, in seconds; 0 if it has not been deleted."""
    return proxy["metadata"].get("deletionGracePeriodSeconds") or 0


def granted_seconds(proxy: Mapping[str, Any], chaperon: Mapping[str, Any], before: int = 0) -> int:
    """Return the delegate's grace period for a terminating proxy pod, in seconds; at most that of the delegate's spec.

    :param before: longest grace period that the deletion had earlier; the user requested a shorter one
    """
    asked, own = asked_seconds(proxy), own_seconds(chaperon)
    is_default = asked == (proxy["spec"].get("terminationGracePeriodSeconds") or 0) and asked >= before
    return own if is_default else min(asked, own)


def began(proxy: Mapping[str, Any]) -> datetime | None:
    """Return when a proxy pod was first deleted, by its API server's clock; None if that cannot be read."""
    metadata = proxy["metadata"]
    try:
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        return datetime.fromisoformat(metadata["deletionTimestamp"]) - grace
    except (KeyError, ValueError, OverflowError):
        return None


def told_seconds(chaperon: Mapping[str, Any]) -> int | None:
    """Return the delegate's grace period from the chaperon's annotation, in seconds; None if missing or invalid."""
    text = (chaperon["metadata"].get("annotations") or {}).get(ANNOTATION_GRACE_PERIOD, "")
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(_LIMIT)):
        return None
    return min(max(LEAST_SECONDS, int(text)), _LIMIT)


def seconds_to_tell(chaperon: Mapping[str, Any], seconds: int) -> int | None:
    """Return the grace period to write on a chaperon; None if the delegate's is not longer than `seconds` already."""
    wanted, known = max(LEAST_SECONDS, seconds), told_seconds(chaperon)
    return wanted if wanted < (own_seconds(chaperon) if known is None else known) else None


def may_serve(proxy: Mapping[str, Any], chaperon: Mapping[str, Any]) -> bool:
    """Return True if Services may route traffic to a terminating proxy pod's delegate: it is ready and not of a Job."""
    controller, status = controller_of(proxy), chaperon.get("status") or {}
    if (controller is not None and controller["kind"] == "Job") or has_ended(proxy) or has_ended(chaperon):
        return False
    if _ENDS & (chaperon["metadata"].get("annotations") or {}).keys():
        return False
    labelled = (chaperon["metadata"].get("labels") or {}).get(names.LABEL_SERVING) == "true"
    return is_true(status.get("conditions"), "Ready") and (labelled or is_withdrawn(chaperon))


def is_withdrawn(chaperon: Mapping[str, Any]) -> bool:
    """Return True if the source has recorded on the chaperon that Services no longer select the delegate."""
    labels = told(chaperon).get("labels", {})
    return names.LABEL_SERVING in labels and labels[names.LABEL_SERVING] is None


def withdrawal_patch(chaperon: Mapping[str, Any], seconds: int | None) -> Raw:
    """Return the merge patch of a chaperon after which copies of Services no longer select the delegate.

    :param seconds: grace period to write with the same patch, None for none
    """
    known = told(chaperon)
    changed = {**known, "labels": {**known.get("labels", {}), names.LABEL_SERVING: None}}
    text = msgspec.json.encode(changed, order="deterministic").decode()
    grace = {ANNOTATION_GRACE_PERIOD: str(seconds)} if seconds is not None else {}
    metadata = {
        "uid": chaperon["metadata"]["uid"],
        "labels": {names.LABEL_SERVING: None},
        "annotations": {names.ANNOTATION_LIVE_CHANGES: text, **grace},
    }
    return {"metadata": metadata}


def grace_patch(chaperon: Mapping[str, Any], seconds: int) -> Raw:
    """Return the merge patch that records the delegate's grace period on the chaperon."""
    annotations = {ANNOTATION_GRACE_PERIOD: str(seconds)}
    return {"metadata": {"uid": chaperon["metadata"]["uid"], "annotations": annotations}}
