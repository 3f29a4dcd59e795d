"""Users' regular expressions over labels: searched in `key=value`, as Admiralty does.

Admiralty's are Go RE2, ours are Python `re`. The common syntax means the same in both; Python also takes look-around
and back-references, which RE2 refuses, and refuses what only RE2 has (`\\pL`, `\\z`, `[[:alpha:]]`, `\\Q..\\E`).
"""

import re
import warnings
from functools import lru_cache


class InvalidPattern(ValueError):
    """A regular expression that Python cannot use; the message says why."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled expression.

    :raises InvalidPattern: if it is none, or means something else in RE2 than in Python
    """
    with warnings.catch_warnings():
        # Python warns where a set such as [[:alpha:]] is read otherwise than RE2 reads it.
        warnings.simplefilter("error", FutureWarning)
        try:
            return re.compile(pattern)
        except (re.error, FutureWarning, OverflowError, RecursionError) as error:
            raise InvalidPattern(f"{pattern!r} is not a regular expression: {error}") from error


def matches(pattern: str | None, key: str, value: str) -> bool:
    """Whether the expression is found in `key=value`; an empty one matches nothing."""
    return bool(pattern) and compile_pattern(pattern or "").search(f"{key}={value}") is not None
