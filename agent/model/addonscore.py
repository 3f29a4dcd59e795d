"""An AddOnPlacementScore of ours: what it should say, what of it has to be written for that, and when again. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api.conditions import Status, set_condition, timestamp
from agent.model.diff import same

CONDITION = "AddOnPlacementScoreUpdated"
RENEW_AT = 1 / 3
"""Part of their validity that is left when scores are renewed."""
_WHOLE_SECOND = 1.0
"""Times are written in whole seconds."""

_Raw = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """Scores by name, and whether they are what they should be."""

    scores: Mapping[str, int]
    validity: float
    """Seconds for which scores count."""
    status: Status = "True"
    reason: str = "Updated"
    message: str = ""
    age: float = 0.0
    """Seconds since these were found out, which are taken off their validity."""
    made: bool = False
    """Whether it is made although it has no scores."""


class Writing(msgspec.Struct, frozen=True):
    """What to do about one."""

    patch: _Raw | None
    """Of its status; None where it says so already."""
    again: float | None
    """In how many seconds to look at it again; None: not before something changes."""


def scores_of(status: Mapping[str, Any]) -> dict[str, int]:
    """The scores of a status, whether they have expired or not."""
    return {each["name"]: each["value"] for each in status.get("scores") or ()}


def decide(wanted: Statement, status: Mapping[str, Any], now: datetime) -> Writing:
    """What has to be written to a status so that it says this.

    Scores that have not moved are renewed when a third of their validity is left, if they are news; where there are
    none, nothing has to be renewed.
    """
    conditions = set_condition(status.get("conditions"), CONDITION, wanted.status, wanted.reason, wanted.message, now)
    told = _left(status, now)
    left, may = min(told, wanted.validity), max(0.0, wanted.validity - wanted.age)
    renewed_at = wanted.validity * RENEW_AT
    stale = bool(wanted.scores) and (
        told > wanted.validity + _WHOLE_SECOND or (left <= renewed_at and may > left + _WHOLE_SECOND)
    )
    patch: _Raw | None = None
    if stale or scores_of(status) != wanted.scores or not same(status.get("conditions"), conditions):
        left = max(left, may)
        scores = [{"name": name, "value": value} for name, value in sorted(wanted.scores.items())]
        until = timestamp(now + timedelta(seconds=left)) if scores else None
        patch = {"scores": scores, "validUntil": until, "conditions": conditions}
    if not wanted.scores:
        return Writing(patch, None)
    return Writing(patch, left - renewed_at if left > renewed_at else max(left, _WHOLE_SECOND))


def _left(status: Mapping[str, Any], now: datetime) -> float:
    """For how many seconds scores count yet; for ever where they do not say."""
    until = status.get("validUntil")
    if until is None:
        return float("inf")
    try:
        return max(0.0, (datetime.fromisoformat(until) - now).total_seconds())
    except (ValueError, TypeError):
        return 0.0
