"""Users' regular expressions over labels: searched in `key=value`, as in Admiralty.

Admiralty uses Go's implementation of RE2, Flotilla uses RE2 itself. Both have the same syntax, and search in
linear time. Python's `re` would let an expression block the agent.

RE2's time also grows with the compiled expression: up to 5 ns for each instruction and character. So
expressions over labels have a small program, and one object's labels have a limit for instructions times
characters.
"""

from functools import lru_cache
from typing import Protocol

import re2

MEMORY_LIMIT = 1 << 20
"""Bytes for a CEL expression, which another process evaluates with a timeout."""
LABEL_MEMORY_LIMIT = 32 << 10
"""Bytes for an expression over labels: up to about 1,800 instructions."""
LENGTH_LIMIT = 256
"""Maximum length of an expression over labels in characters."""
WORK_LIMIT = 5_000_000
"""Maximum of instructions times characters for the labels of one object: about 25 ms."""
LABEL_WORK = 1000
"""Added for each label: a search takes at least 3 us."""

_SHOWN = 100
_CACHED = 8192
"""Number of cached results; each has a key and a value of a label, so at most 3 MiB."""


class InvalidPattern(ValueError):
    """An invalid or too large regular expression; the message has the reason."""


class Pattern(Protocol):
    """A compiled regular expression in RE2's syntax."""

    @property
    def programsize(self) -> int:
        """Number of its instructions."""
        ...

    def search(self, text: str, /) -> object | None:
        """Return a match if the expression is found in the text, else None."""
        ...


def _options(memory: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    options.never_capture = True
    return options


_OPTIONS = {memory: _options(memory) for memory in (MEMORY_LIMIT, LABEL_MEMORY_LIMIT)}


@lru_cache(maxsize=128)
def compile_pattern(pattern: str, memory: int = MEMORY_LIMIT) -> Pattern:
    """Compile an expression.

    :param memory: MEMORY_LIMIT or LABEL_MEMORY_LIMIT
    :raises InvalidPattern: if RE2 rejects it
    """
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS[memory])
    except re2.error as error:
        raise InvalidPattern(f"{_shown(pattern)} is not a regular expression (RE2): {_reason(error)}") from error
    except UnicodeEncodeError as error:
        raise InvalidPattern(f"{_shown(pattern)} is not a regular expression: it is not Unicode text") from error
    return compiled


class LabelPattern:
    """Regular expression over labels. Create one for each object, since each has its own work limit.

    An empty expression matches nothing.

    :raises InvalidPattern: if the expression is too long, or RE2 rejects it
    """

    def __init__(self, text: str | None, length: int = LENGTH_LIMIT, work: int = WORK_LIMIT) -> None:
        self._text = text or ""
        if len(self._text) > length:
            raise InvalidPattern(
                f"{_shown(self._text)} is too long: it has {len(self._text)} characters, and {length} are allowed:"
                " shorten it, for example to the prefix that the labels have in common"
            )
        self._size = compile_pattern(self._text, LABEL_MEMORY_LIMIT).programsize if self._text else 0
        self._work = self._limit = work

    def matches(self, key: str, value: str) -> bool:
        """Return whether the expression is found in `key=value`.

        :raises InvalidPattern: if the searches of this object's labels exceed the work limit
        """
        if not self._text:
            return False
        self._work -= self._size * (len(key) + 1 + len(value)) + LABEL_WORK
        if self._work < 0:
            raise InvalidPattern(
                f"{_shown(self._text)} is too large for so many labels: its {self._size} instructions (RE2) times the"
                f" characters of the labels and selectors, and {LABEL_WORK} for each of these, may be {self._limit}:"
                " write a simpler expression without counted repetitions, or fewer labels"
            )
        return _is_found(self._text, key, value)


@lru_cache(maxsize=_CACHED)
def _is_found(text: str, key: str, value: str) -> bool:
    return compile_pattern(text, LABEL_MEMORY_LIMIT).search(f"{key}={value}") is not None


def _shown(pattern: str) -> str:
    return repr(pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "...")


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
