"""Users' regular expressions over labels: searched in `key=value`, as Admiralty does.

Admiralty's are Go's RE2, ours are RE2 itself: the same syntax, refused with RE2's own words, and a time that grows
linearly with the searched text. Python's `re` could be made to hang the agent.

RE2's time also grows with the compiled expression: up to 5 ns for each instruction and character. So expressions over
labels have a small program, and one object's labels have a limit for instructions times characters.
"""

from functools import lru_cache
from typing import Protocol

import re2

MEMORY_LIMIT = 1 << 20
"""Bytes for an expression in CEL, which another process evaluates and ends when it takes too long."""
LABEL_MEMORY_LIMIT = 32 << 10
"""Bytes for an expression over labels: up to about 1,800 instructions."""
LENGTH_LIMIT = 256
"""Characters of an expression over labels."""
WORK_LIMIT = 5_000_000
"""Instructions times characters for the labels of one object: at most about 25 ms."""
LABEL_WORK = 1000
"""Added for each label: a search takes 3 us at least."""

_SHOWN = 100
_CACHED = 8192
"""Answers that are cached; each has a key and a value of a label, so 3 MiB at most."""


class InvalidPattern(ValueError):
    """No regular expression, or one that is too large; the message says why."""


class Pattern(Protocol):
    """A regular expression in RE2's syntax, compiled."""

    @property
    def programsize(self) -> int:
        """Number of its instructions."""
        ...

    def search(self, text: str, /) -> object | None:
        """Something where the expression is found in the text, None where it is not."""
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
    """The compiled expression.

    :param memory: MEMORY_LIMIT or LABEL_MEMORY_LIMIT
    :raises InvalidPattern: if RE2 refuses it
    """
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS[memory])
    except re2.error as error:
        raise InvalidPattern(f"{_shown(pattern)} is not a regular expression (RE2): {_reason(error)}") from error
    except UnicodeEncodeError as error:
        raise InvalidPattern(f"{_shown(pattern)} is not a regular expression: it is not Unicode text") from error
    return compiled


class LabelPattern:
    """Regular expression over the labels of one object. Make a new one for each object: the limit of work is its own.

    An empty expression matches nothing.

    :raises InvalidPattern: if the expression is too long, or RE2 refuses it
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
        """Whether the expression is found in `key=value`.

        :raises InvalidPattern: if searching all labels so far is too much work
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
