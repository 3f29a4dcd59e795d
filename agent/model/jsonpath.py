"""JSONPath as in kubectl, without braces: names, indexes, slices, wildcards, unions, recursive descent and filters."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

_Step = Callable[[Any], Iterator[Any]]

LONGEST = 1024
"""Maximum number of characters of a path."""
_VALUES = 10_000
"""Maximum number of values that a step may give."""
_DESCENTS = 1
"""Maximum number of recursive descents in a path: each further one may visit every field many times."""

_NAME = re.compile(r"(?:\\.|[^.\[\]\s'\"\\])+")
_QUOTED = re.compile(r"\s*(?:'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\")\s*")
_INDEX = re.compile(r"\s*+(-?\d*+)\s*+(?:(:)\s*+(-?\d*+)\s*+(?:(:)\s*+(-?\d*+)\s*+)?)?")
_COMPARISON = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")


class InvalidPath(ValueError):
    """A path that is invalid, too long, or gives too many values."""


def find(path: str, value: Any) -> list[Any]:
    """Return all values at a path; missing keys give none.

    :raises InvalidPath: if the path is invalid
    """
    found = [value]
    for step in _steps(path):
        after = []
        for each in found:
            for one in step(each):
                after.append(one)
                if len(after) > _VALUES:
                    raise InvalidPath(f"it gives more than {_VALUES} values")
        found = after
    return found


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[_Step, ...]:
    if len(path) > LONGEST:
        raise InvalidPath(f"it has more than {LONGEST} characters")
    if path.count("..") > _DESCENTS:
        raise InvalidPath("it has more than one recursive descent (..)")
    text = path.strip()
    position = 1 if text.startswith(("$", "@")) else 0
    steps: list[_Step] = []
    while position < len(text):
        step, position = _next(text, position, is_first=not steps)
        steps.append(step)
    return tuple(steps)


def _next(text: str, position: int, *, is_first: bool) -> tuple[_Step, int]:
    """Return the step at a position, and the position after it."""
    if text.startswith("..", position):
        inner, after = _part(text, position + 2)
        return _descent(inner), after
    if text[position] == ".":
        if position + 1 == len(text) and is_first:
            return _itself, position + 1
        return _part(text, position + 1)
    if text[position] == "[" or is_first:
        return _part(text, position)
    raise InvalidPath(f"unexpected {text[position]!r} at character {position + 1}")


def _itself(value: Any) -> Iterator[Any]:
    yield value


def _part(text: str, position: int) -> tuple[_Step, int]:
    if text.startswith("*", position):
        return _all, position + 1
    if text.startswith("[", position):
        end = _closing(text, position)
        return _bracket(text[position + 1 : end].strip()), end + 1
    match = _NAME.match(text, position)
    if match is None:
        raise InvalidPath(f"a name is missing at character {position + 1}")
    return _key(_plain(match[0])), match.end()


def _closing(text: str, position: int) -> int:
    """Return the position of the bracket that closes the one at a position."""
    depth, quote, at = 0, "", position
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            depth += (char == "[") - (char == "]")
            if depth == 0:
                return at
        at += 1
    raise InvalidPath("a closing ] is missing")


def _bracket(inner: str) -> _Step:
    if inner == "*":
        return _all
    if inner.startswith("?(") and inner.endswith(")"):
        return _filter(inner[2:-1])
    steps = []
    for part in _split(inner):
        quoted = _unquoted(part)
        index = _INDEX.fullmatch(part)
        if quoted is not None:
            steps.append(_key(quoted))
        elif index is not None and part.strip():
            steps.append(_slice(index))
        elif _NAME.fullmatch(part.strip()):
            steps.append(_key(_plain(part.strip())))
        else:
            raise InvalidPath(f"[{inner}] is no index, name or filter")
    if not steps:
        raise InvalidPath("[] is empty")
    return lambda value: (each for step in steps for each in step(value))


def _split(text: str) -> list[str]:
    parts, quote, start = [], "", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[at - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char == ",":
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text.strip() else []


def _unquoted(text: str) -> str | None:
    """Return the contents of a text in quotes; None if it is in none."""
    match = _QUOTED.fullmatch(text)
    return _plain(match[1] if match[1] is not None else match[2]) if match is not None else None


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _key(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _slice(match: re.Match[str]) -> _Step:
    first, is_range, end, _, stride = match.groups()
    try:
        numbers = [int(each) if each else None for each in (first, end, stride)]
    except ValueError as error:
        raise InvalidPath(f"[{match[0]}] is no index") from error
    if numbers[2] is not None and numbers[2] < 1:
        raise InvalidPath("the step of a slice must be greater than 0")
    chosen = slice(*numbers)

    def step(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        if is_range:
            yield from value[chosen]
        elif numbers[0] is not None and -len(value) <= numbers[0] < len(value):
            yield value[numbers[0]]

    return step


def _descent(inner: _Step) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        waiting = [value]
        while waiting:
            each = waiting.pop()
            yield from inner(each)
            waiting += reversed([*_all(each)])

    return step


def _filter(text: str) -> _Step:
    parts = _COMPARISON.split(text.strip(), maxsplit=1)
    left = _operand(parts[0])
    if len(parts) == 1:
        return lambda value: (each for each in _all(value) if left(each))
    operator, right = parts[1], _operand(parts[2])

    def holds(item: Any) -> bool:
        one, other = left(item), right(item)
        return bool(one and other) and _compares(one[0], operator, other[0])

    return lambda value: (each for each in _all(value) if holds(each))


def _operand(text: str) -> Callable[[Any], list[Any]]:
    text = text.strip()
    if text.startswith("@"):
        # Read now, so that an invalid path is reported whatever the object has.
        _steps(text)
        return lambda item: find(text, item)
    constant = _constant(text)
    return lambda item: [constant]


def _constant(text: str) -> str | bool | float:
    quoted = _unquoted(text)
    if quoted is not None:
        return quoted
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if re.fullmatch(r"-?\d{1,18}", text) else float(text)
    except ValueError as error:
        raise InvalidPath(f"{text!r} is no value to compare with") from error


def _compares(one: Any, operator: str, other: Any) -> bool:
    if isinstance(one, bool) != isinstance(other, bool) or isinstance(one, str) != isinstance(other, str):
        return operator == "!="
    if operator in ("==", "!="):
        return bool(one == other) == (operator == "==")
    if isinstance(one, dict | list | None) or isinstance(other, dict | list | None):
        return False
    results = {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}
    return bool(results[operator])
