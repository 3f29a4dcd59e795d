"""Users' regular expressions over labels: searched in `key=value`, as Admiralty does.

Admiralty's are Go's RE2, ours are RE2 itself: the same syntax, refused with RE2's own words, and a time that grows
linearly with what is searched, whatever a user writes. Python's `re` could be made to hang the agent.
"""

from functools import lru_cache
from typing import Protocol

import re2

MEMORY_LIMIT = 1 << 20
"""Bytes that one compiled expression may take; a larger one is refused."""

_SHOWN = 100


class InvalidPattern(ValueError):
    """No regular expression, or one that is too large; the message says why."""


class Pattern(Protocol):
    """A regular expression in RE2's syntax, compiled."""

    def search(self, text: str, /) -> object | None:
        """Something where the expression is found in the text, None where it is not."""
        ...


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MEMORY_LIMIT
    options.log_errors = False
    options.never_capture = True
    return options


_OPTIONS = _options()


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Pattern:
    """The compiled expression.

    :raises InvalidPattern: if RE2 refuses it
    """
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise InvalidPattern(f"{_shown(pattern)} is not a regular expression (RE2): {_reason(error)}") from error
    except UnicodeEncodeError as error:
        raise InvalidPattern(f"{_shown(pattern)} is not a regular expression: it is not Unicode text") from error
    return compiled


def matches(pattern: str | None, key: str, value: str) -> bool:
    """Whether the expression is found in `key=value`; an empty one matches nothing."""
    return bool(pattern) and compile_pattern(pattern or "").search(f"{key}={value}") is not None


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "...")


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
