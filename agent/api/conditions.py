"""Conditions of our objects' status, as lists of raw dicts in the shape of `metav1.Condition`."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

Status = Literal["True", "False", "Unknown"]

PODS_CREATED = "multicluster/PodsCreated"
"""Of a chaperon that is refused: False where no pod can be created for now, whatever is in it."""


def timestamp(now: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as API servers write times."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_condition(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> Mapping[str, Any] | None:
    """The condition of this type, None when there is none."""
    return next((condition for condition in conditions or () if condition.get("type") == type), None)


def condition_of(obj: Mapping[str, Any], type: str) -> Mapping[str, Any] | None:
    """The condition of this type in an object's status, None when there is none."""
    return find_condition((obj.get("status") or {}).get("conditions"), type)


def is_true(conditions: Iterable[Mapping[str, Any]] | None, type: str) -> bool:
    """Whether there is a condition of this type, and it says so."""
    return (find_condition(conditions, type) or {}).get("status") == "True"


def without_condition(conditions: Iterable[dict[str, Any]] | None, type: str) -> list[dict[str, Any]]:
    """A new list without the condition of this type."""
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
    """A new list in which the condition of this type says this; the others and their order stay.

    lastTransitionTime moves only when the status changes. Fields of the old condition that we do not write survive.
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
    """A new list, like `current` but for the conditions that are others in `after` than in `before`, or not there."""
    old, new, there = ({each.get("type"): each for each in found or ()} for found in (before, after, current))
    changed = {type: condition for type, condition in new.items() if condition != old.get(type)}
    kept = {type: condition for type, condition in there.items() if type in new or type not in old}
    return list((kept | changed).values())
