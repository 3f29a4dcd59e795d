"""Readers of fields of a Placement that no API server has validated yet; errors name the field."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.ranking.pod_terms import Requirement, Selector

WITH_VALUES = ("In", "NotIn")
WITHOUT_VALUES = ("Exists", "DoesNotExist")
_NOUNS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}


class Misconfigured(Exception):
    """An error in a Placement, with the text of its condition."""


def mapping(raw: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """Return the object in a field; empty if absent.

    :raises Misconfigured: if the field is no object
    """
    found = raw.get(key)
    return {} if found is None else _of(dict, found, f"{where}.{key}")


def mapping_if_any(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object in a field; empty if absent or no object."""
    found = raw.get(key)
    return found if isinstance(found, Mapping) else {}


def items(raw: Mapping[str, Any], key: str, where: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return the objects of the list in a field, each with its path.

    :raises Misconfigured: if the field is no list of objects
    """
    found = _of(list, raw.get(key) or [], f"{where}.{key}")
    return [(place := f"{where}.{key}[{n}]", _of(dict, item, place)) for n, item in enumerate(found)]


def texts(raw: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Return the strings of the list in a field.

    :raises Misconfigured: if the field is no list of strings
    """
    found = _of(list, raw.get(key) or [], f"{where}.{key}")
    return tuple(_of(str, item, f"{where}.{key}[{n}]") for n, item in enumerate(found))


def text(raw: Mapping[str, Any], key: str, where: str, default: str = "", one_of: Sequence[str] = ()) -> str:
    """Return the string in a field.

    :param one_of: allowed values; empty for any
    :raises Misconfigured: if the field is no string, or not allowed
    """
    found: str = _of(str, raw.get(key) or default, f"{where}.{key}")
    if one_of and found not in one_of:
        raise Misconfigured(f"{where}.{key}: {found!r} is none of {', '.join(one_of)}")
    return found


def number(
    raw: Mapping[str, Any], key: str, where: str, least: int | None = None, most: int | None = None
) -> int | None:
    """Return the whole number in a field; None if absent.

    :raises Misconfigured: if the field is no whole number, or out of range
    """
    if raw.get(key) is None:
        return None
    found: int = _of(int, raw[key], f"{where}.{key}")
    if (least is not None and found < least) or (most is not None and found > most):
        wanted = f"{least} or more" if most is None else f"from {least} to {most}"
        raise Misconfigured(f"{where}.{key}: must be {wanted}, not {found}")
    return found


def selector(raw: Mapping[str, Any], where: str) -> Selector:
    """Return a label selector or claim selector; an empty one matches everything.

    :raises Misconfigured: if it is invalid
    """
    pairs = mapping(raw, "matchLabels", where)
    found = [Requirement(key, "In", (text(pairs, key, f"{where}.matchLabels"),)) for key in pairs]
    found += [_requirement(item, place) for place, item in items(raw, "matchExpressions", where)]
    return Selector(tuple(found))


def _requirement(raw: Mapping[str, Any], where: str) -> Requirement:
    key, operator, values = text(raw, "key", where), text(raw, "operator", where), texts(raw, "values", where)
    if operator not in WITH_VALUES + WITHOUT_VALUES:
        raise Misconfigured(f"{json.dumps(operator)} is not a valid label selector operator ({where})")
    if not key:
        raise Misconfigured(f'key: Invalid value: "": name part must be non-empty ({where})')
    if operator in WITH_VALUES and not values:
        raise Misconfigured(
            f"values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty ({where})"
        )
    if operator in WITHOUT_VALUES and values:
        raise Misconfigured(
            f"values: Invalid value: {json.dumps(values)}: "
            f"values set must be empty for exists and does not exist ({where})"
        )
    return Requirement(key, operator, values)


def _of(kind: type, found: Any, where: str) -> Any:
    if not isinstance(found, kind) or isinstance(found, bool):
        raise Misconfigured(f"{where}: must be {_NOUNS[kind]}")
    return found
