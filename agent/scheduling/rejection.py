"""Why a filter rejects a target for a pod."""

from typing import NamedTuple


class Rejection(NamedTuple):
    """The answer of a filter that says no."""

    reason: str
    """One CamelCase word, for metrics."""
    message: str
    """In words, for conditions and events."""
