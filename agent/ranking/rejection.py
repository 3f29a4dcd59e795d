"""The reason why a filter rejects a target for a pod."""

from typing import NamedTuple


class Rejection(NamedTuple):
    """A filter's negative result."""

    reason: str
    """One CamelCase word, for metrics."""
    message: str
    """Text for conditions and events."""
