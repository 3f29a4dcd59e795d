"""Differences between two views of one manifest. Pure."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hack.lab.corpus.views import View

Raw = dict[str, Any]

CONFIGURED, UNCHANGED = " configured", " unchanged"

_AT_MOST = 4
_LONG = 60


def differences(plain: View, elected: View) -> list[str]:
    """Return one line for each object that differs; empty if all are alike."""
    found = []
    for key in sorted({*plain.objects, *elected.objects}):
        here, there = plain.objects.get(key, ()), elected.objects.get(key, ())
        if len(here) != len(there):
            found.append(f"{key}, how many: {len(there)} (plain: {len(here)})")
        elif unlike := _unlike(here, there):
            found.append(f"{key}, {unlike}")
    return found


def uneven(what: str, plain: Sequence[str], elected: Sequence[str]) -> list[str]:
    """Return the differences between two lists of lines, in any order."""
    here, there = Counter(plain), Counter(elected)
    more = [f"{what}: {line}" for line in sorted((there - here).elements())]
    return more + [f"{what}: {line} (only plain)" for line in sorted((here - there).elements())]


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a line for each object with another version than before. New objects do not count."""
    return [
        f"{name}: is being written again and again"
        for name, version in now.items()
        if before.get(name, version) != version
    ]


def excused(line: str, plain: Sequence[str], rewritten: Collection[str]) -> str:
    """Return kubectl's line for an elected object, or the line for the plain one if the difference is acceptable.

    Two differences are acceptable. kubectl may print `configured` forever for a plain bare pod with a claim,
    and `unchanged` for the elected one. It prints `configured` for rewritten objects.
    """
    name = line.partition(" ")[0]
    if line.endswith(UNCHANGED):
        other = name + CONFIGURED
    elif line.endswith(CONFIGURED) and name in rewritten:
        other = name + UNCHANGED
    else:
        return line
    return other if line not in plain and other in plain else line


def _unlike(plain: Sequence[Raw], elected: Sequence[Raw]) -> str:
    """Return the difference between objects of one name; equal objects are left out."""
    there = {json.dumps(each, sort_keys=True): each for each in elected}
    counted = Counter(json.dumps(each, sort_keys=True) for each in elected)
    counted.subtract(json.dumps(each, sort_keys=True) for each in plain)
    here = {json.dumps(each, sort_keys=True): each for each in plain}
    extra = next((there[text] for text, count in counted.items() if count > 0), None)
    missing = next((here[text] for text, count in counted.items() if count < 0), None)
    if extra is None or missing is None:
        return ""
    lines = list(_leaves("", missing, extra))
    more = f" and {len(lines) - _AT_MOST} more" if len(lines) > _AT_MOST else ""
    return "; ".join(lines[:_AT_MOST]) + more


def _leaves(path: str, plain: Any, elected: Any) -> Iterator[str]:
    if isinstance(plain, dict) and isinstance(elected, dict):
        for field in sorted({*plain, *elected}):
            yield from _leaves(f"{path}.{field}" if path else str(field), plain.get(field), elected.get(field))
    elif isinstance(plain, list) and isinstance(elected, list) and len(plain) == len(elected):
        for number, (one, other) in enumerate(zip(plain, elected, strict=True)):
            yield from _leaves(f"{path}[{number}]", one, other)
    elif plain != elected:
        yield f"{path}: {_short(elected)} (plain: {_short(plain)})"


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
