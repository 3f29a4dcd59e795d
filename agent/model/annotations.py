"""The annotations of an object together: how large they are, and which of many do not fit. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api.labels import is_key
from agent.model.abridged import abridged

LIMIT = 256 * 1024
"""Bytes of all annotations of an object together (apimachinery's TotalAnnotationSizeLimitB)."""
RESERVED = 4 * 1024
"""Bytes of them that stay free for what agents write later."""
_KEYS_TOLD = 10
_KEY_SHOWN = 80


def size(annotations: Mapping[str, str]) -> int:
    """Their bytes as API servers count them."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def fitting(current: Mapping[str, str], changes: Mapping[str, Any]) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Of a merge patch of annotations what an API server takes, and the keys of what is left out.

    Left out is what is no annotation and, until the rest fits, what makes them larger, the largest first. A patch of
    what was left out leaves out the same again.
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
    """Return annotations without the largest, until all fit beside `taken` bytes of others.

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
    """What users are told of those that are left out."""
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
