"""Size limit of an object's annotations, and the choice of annotations that fit. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api.labels import is_key
from agent.model.abridged import abridged

LIMIT = 256 * 1024
"""Maximum bytes of all annotations of an object (apimachinery: TotalAnnotationSizeLimitB)."""
RESERVED = 4 * 1024
"""Bytes that stay free for annotations that agents write later."""
_KEYS_TOLD = 10
_KEY_SHOWN = 80


def size(annotations: Mapping[str, str]) -> int:
    """Return the bytes of annotations, as the API server counts them."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def fitting(current: Mapping[str, str], changes: Mapping[str, Any]) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Return the part of a merge patch of annotations that the API server accepts, and the keys that are left out.

    Invalid annotations are left out first, then those with the largest growth until the rest fits. A patch with only
    the keys that were left out leaves out the same keys again.
    """
    if not changes:
        return {}, ()
    kept = {key: value for key, value in changes.items() if value is None or _is_annotation(key, value)}
    growth = {key: _growth(key, value, current.get(key)) for key, value in kept.items()}
    excess = size(current) + sum(growth.values()) - (LIMIT - RESERVED)
    for key in sorted(growth, key=lambda key: (-growth[key], key)):
        if excess <= 0 or growth[key] <= 0:
            break
        del kept[key]
        excess -= growth[key]
    return kept, tuple(sorted(changes.keys() - kept.keys()))


def within(pairs: Mapping[str, str], taken: int, *, listed: bool = False) -> dict[str, str]:
    """Drop the largest annotations until the rest fits.

    :param taken: bytes of further annotations of the object
    :param listed: whether another annotation lists the keys as JSON
    """
    costs = {key: len(key.encode()) * (1 + listed) + len(value.encode()) + 4 * listed for key, value in pairs.items()}
    kept, excess = dict(pairs), sum(costs.values()) + taken - LIMIT
    for key in sorted(costs, key=lambda key: (-costs[key], key)):
        if excess <= 0:
            break
        del kept[key]
        excess -= costs[key]
    return kept


def message(keys: Sequence[str]) -> str:
    """Return the message to users about annotations that were left out."""
    shown = abridged([key[:_KEY_SHOWN] for key in keys], _KEYS_TOLD)
    return (
        f"annotations of the delegate that do not come home: {shown}: all of an object together may have "
        f"{LIMIT} bytes, and their keys are qualified names; make them smaller there, or remove them"
    )


def _is_annotation(key: str, value: Any) -> bool:
    return isinstance(value, str) and is_key(key.lower())


def _growth(key: str, value: str | None, before: str | None) -> int:
    old = len(key.encode()) + len(before.encode()) if before is not None else 0
    new = len(key.encode()) + len(value.encode()) if value is not None else 0
    return new - old
