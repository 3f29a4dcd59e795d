"""What a rule says about a pod and a target."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """A rule says no."""

    reason: str
    """One CamelCase word, for metrics."""
    message: str
    """In words, for conditions and events."""
