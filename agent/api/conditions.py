"""Conditions in the status of Flotilla's objects, as lists of raw dicts in the shape of `metav1.Condition`."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

Status = Literal["True", "False", "Unknown"]

PODS_CREATED = "multicluster/PodsCreated"
"""Condition of a refused chaperon: False if no pod of the namespace can be created now, whatever its content."""


def timestamp(now: datetime) -> str:
    """Return a time as API servers write it: RFC 3339 in UTC with whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_condition(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> Mapping[str, Any] | None:
    """Return the condition of this type, None if there is none."""
    return next((condition for condition in conditions or () if condition.get("type") == type), None)


def condition_of(obj: Mapping[str, Any], type: str) -> Mapping[str, Any] | None:
    """Return the condition of this type in an object's status, None if there is none."""
    return find_condition((obj.get("status") or {}).get("conditions"), type)


def is_true(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> bool:
    """Return whether there is a condition of this type with the status True."""
    return (find_condition(conditions, type) or {}).get("status") == "True"


def without_condition(conditions: Iterable[dict[str, Any]] | None, type: str) -> list[dict[str, Any]]:
    """Return a new list without the condition of this type."""
    return [condition for condition in conditions or () if condition.get("type") != type]


def set_condition(
    conditions: Iterable[dict[str, Any]] | None,
    type: str,
    status: Status,
    reason: str,
    message: str,
    now: datetime,
    generation: int | None = None,
) -> list[dict[str, Any]]:
    """Return a new list with this content of the condition; other conditions and the order stay.

    lastTransitionTime changes only with the status. Other fields of the old condition are kept.
    """
    wanted: dict[str, Any] = {"type": type, "status": status, "reason": reason, "message": message}
    if generation is not None:
        wanted["observedGeneration"] = generation
    wanted["lastTransitionTime"] = timestamp(now)
    result = []
    replaced = False
    for condition in conditions or ():
        if condition.get("type") != type:
            result.append(condition)
        elif not replaced:
            replaced = True
            if condition.get("status") == status and condition.get("lastTransitionTime"):
                wanted["lastTransitionTime"] = condition["lastTransitionTime"]
            result.append({**condition, **wanted})
    if not replaced:
        result.append(wanted)
    return result


def with_changes(
    current: Iterable[dict[str, Any]] | None,
    before: Iterable[dict[str, Any]] | None,
    after: Iterable[dict[str, Any]] | None,
) -> list[dict[str, Any]]:
    """Return a new list: `current` with the changes from `before` to `after`, including removed conditions."""
    old, new, there = ({each.get("type"): each for each in found or ()} for found in (before, after, current))
    changed = {type: condition for type, condition in new.items() if condition != old.get(type)}
    kept = {type: condition for type, condition in there.items() if type in new or type not in old}
    return list((kept | changed).values())
