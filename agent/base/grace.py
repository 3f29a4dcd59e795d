"""Grace periods: what is absent for a moment, as during a restore or a rewrite, still counts as present."""

from collections.abc import Hashable

ABSENT_SECONDS = 60.0
"""Seconds for which what another cluster no longer names still counts as named."""


class GracePeriods:
    """Since when which things are absent, by any key."""

    def __init__(self, seconds: float = ABSENT_SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[Hashable, float] = {}

    def left(self, key: Hashable, now: float) -> float:
        """Return seconds for which something absent still counts as present; 0 once they are over.

        :param now: monotonic time in seconds
        """
        return max(0.0, self._since.setdefault(key, now) + self._seconds - now)

    def is_running(self, key: Hashable) -> bool:
        """Whether something is known to be absent."""
        return key in self._since

    def end(self, key: Hashable) -> None:
        """It is present, or no longer of interest: the next absence has a period of its own."""
        self._since.pop(key, None)
