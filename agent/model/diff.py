"""Minimal patches between two raw objects: no difference, no patch, no call."""

from collections.abc import Iterable
from typing import Any

import msgspec


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) from old to new; {} if they are equivalent.

    None counts as absent, also in lists: a merge patch cannot write null, and API servers write null for unset times.
    Different lists are replaced as a whole.
    """
    patch: dict[str, Any] = {}
    for key, before in old.items():
        if before is not None and new.get(key) is None:
            patch[key] = None
    for key, after in new.items():
        if after is None:
            continue
        before = old.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            inner = merge_patch(before, after)
            if inner:
                patch[key] = inner
        elif not equivalent(before, after):
            patch[key] = after
    return patch


def json_patch(old: Any, new: Any) -> list[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) from old to new, without `test` operations; [] if they are equal."""
    operations: list[dict[str, Any]] = []
    _walk("", old, new, operations)
    return operations


def same(old: Any, new: Any) -> bool:
    """Return True if two JSON values are equal; unlike in Python, true is not 1."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(same(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(same, old, new))
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def equivalent(old: Any, new: Any) -> bool:
    """Return True if two JSON values are equal for the API server, which treats null fields as absent."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(equivalent(value, new.get(key)) for key, value in old.items()) and all(
            value is None or key in old for key, value in new.items()
        )
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(equivalent, old, new))
    return same(old, new)


def others(found: Iterable[Any], known: Iterable[Any]) -> list[Any]:
    """Return the members of one list that are not in another, in linear time, since users choose the lengths."""
    seen = {_encoded(each) for each in known}
    return [each for each in found if _encoded(each) not in seen]


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _walk(path: str, old: Any, new: Any, operations: list[dict[str, Any]]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        _walk_dict(path, old, new, operations)
    elif isinstance(old, list) and isinstance(new, list):
        _walk_list(path, old, new, operations)
    elif not same(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _walk_dict(path: str, old: dict[str, Any], new: dict[str, Any], operations: list[dict[str, Any]]) -> None:
    for key, before in old.items():
        where = f"{path}/{_escape(key)}"
        if key in new:
            _walk(where, before, new[key], operations)
        else:
            operations.append({"op": "remove", "path": where})
    operations.extend(
        {"op": "add", "path": f"{path}/{_escape(key)}", "value": value} for key, value in new.items() if key not in old
    )


def _walk_list(path: str, old: list[Any], new: list[Any], operations: list[dict[str, Any]]) -> None:
    """Leave the common head and tail, change what lies between item by item, then drop or insert the rest."""
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and same(old[head], new[head]):
        head += 1
    tail = 0
    while tail < shorter - head and same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    end = shorter - tail
    for index in range(head, end):
        _walk(f"{path}/{index}", old[index], new[index], operations)
    operations.extend({"op": "remove", "path": f"{path}/{index}"} for index in range(len(old) - tail - 1, end - 1, -1))
    operations.extend(
        {"op": "add", "path": f"{path}/{index}", "value": new[index]} for index in range(end, len(new) - tail)
    )


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
