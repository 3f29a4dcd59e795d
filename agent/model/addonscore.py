"""Status of our AddOnPlacementScores: the wanted scores, the patch to write, and the time of the next check. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api.conditions import Status, set_condition, timestamp
from agent.model.diff import same

CONDITION = "AddOnPlacementScoreUpdated"
RENEW_AT = 1 / 3
"""Fraction of the validity that is left when scores are renewed."""
_WHOLE_SECOND = 1.0
"""Resolution of timestamps, in seconds."""

_Raw = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """Wanted scores by name, with their validity and condition."""

    scores: Mapping[str, int]
    validity: float
    """Seconds for which the scores are valid."""
    status: Status = "True"
    reason: str = "Updated"
    message: str = ""
    age: float = 0.0
    """Seconds since the scores were computed; they shorten the validity."""
    made: bool = False
    """Whether to create the AddOnPlacementScore even if it has no scores."""


class Writing(msgspec.Struct, frozen=True):
    """Decision about one AddOnPlacementScore."""

    patch: _Raw | None
    """Patch of its status; None if the status is up to date."""
    again: float | None
    """Seconds until the next check; None if only a change requires one."""


def scores_of(status: Mapping[str, Any]) -> dict[str, int]:
    """Return the scores of a status, expired or not."""
    return {each["name"]: each["value"] for each in status.get("scores") or ()}


def decide(wanted: Statement, status: Mapping[str, Any], now: datetime) -> Writing:
    """Decide which patch a status needs, and when to check it again.

    Unchanged scores are renewed when a third of their validity is left, if that extends it. A status without
    scores is not renewed.
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
    """Return the seconds until scores expire; infinity without `validUntil`, 0 if it is invalid."""
    until = status.get("validUntil")
    if until is None:
        return float("inf")
    try:
        return max(0.0, (datetime.fromisoformat(until) - now).total_seconds())
    except (ValueError, TypeError):
        return 0.0
