"""Forms of flag values: parsers and their errors. Pure."""

import math
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from agent.model import duration as durations
from agent.model import hostport

T = TypeVar("T")
S = TypeVar("S", bound=str)


class Form(msgspec.Struct, Generic[T], frozen=True):
    """Metavar in the help and parser of a value; `read` raises ValueError with the allowed form."""

    metavar: str
    read: Callable[[str], T]


def form(metavar: str, accepts: Callable[[str], bool], complaint: str) -> Form[str]:
    """Text that a rule accepts."""

    def read(text: str) -> str:
        if not accepts(text):
            raise ValueError(complaint)
        return text

    return Form(metavar, read)


def or_empty(inner: Form[str]) -> Form[str]:
    """Return the form that also accepts an empty value."""
    return Form(inner.metavar, lambda text: inner.read(text) if text else "")


def one_of(*choices: S) -> Form[S]:
    """Return a form that accepts one of these words in any case."""

    def read(text: str) -> S:
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return Form("|".join(choices), read)


def whole(least: int, most: int | None = None, metavar: str = "NUMBER") -> Form[int]:
    """A whole number within bounds."""
    bounds = f"{least} or more" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"must be a whole number, {bounds}") from None
        if number < least or (most is not None and number > most):
            raise ValueError(f"must be {bounds}")
        return number

    return Form(metavar, read)


def number(accepts: Callable[[float], bool], bounds: str) -> Form[float]:
    """Return a form for numbers that a rule accepts; `bounds` describes the rule."""

    def read(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            raise ValueError(f"must be a number {bounds}") from None
        if not (math.isfinite(found) and accepts(found)):
            raise ValueError(f"must be {bounds}")
        return found

    return Form("NUMBER", read)


def duration(least: str = "", most: str = "", why: str = "") -> Form[float]:
    """Return a form for seconds of a duration within inclusive bounds; `why` is the reason for the bounds."""
    bounds = ", ".join([f"{least} at least"] * bool(least) + [f"{most} at most"] * bool(most))
    lowest = durations.seconds(least or "0")
    highest = durations.seconds(most) if most else math.inf

    def read(text: str) -> float:
        found = durations.seconds(text)
        if not lowest <= found <= highest:
            raise ValueError(f"must be {bounds}" + (f": {why}" if why else ""))
        return found

    return Form("DURATION", read)


def _longer(text: str) -> float:
    found = durations.seconds(text)
    if not found:
        raise ValueError("must be longer than nothing, such as 60s, 1m30s or 100ms")
    return found


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError("must be true or false")
    return text.lower() in ("true", "1")


def _is_address(text: str) -> str:
    hostport.split(text)
    return text


TEXT = Form("TEXT", str)
NAME = form("NAME", bool, "must not be empty")
FILE = form("FILE", bool, "must not be empty")
SWITCH = Form("true|false", _switch)
PORT = whole(1, 65535, "PORT")
ADDRESS = Form("HOST:PORT", _is_address)
POSITIVE = number(lambda found: found > 0, "greater than 0")
NOT_NEGATIVE = number(lambda found: found >= 0, "0 or greater")
DURATION = Form("DURATION", _longer)
DURATION_OR_NONE = duration()
LOG_LEVEL = one_of("DEBUG", "INFO", "WARNING", "ERROR")
