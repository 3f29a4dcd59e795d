"""Grace periods for things that are absent for a moment, such as an object that is being restored."""

from collections.abc import Hashable

ABSENT_SECONDS = 60.0
"""Default length in seconds, for things that another cluster no longer names."""


class GracePeriods:
    """Start times of absences, by any key. A thing counts as present until its grace period is over."""

    def __init__(self, seconds: float = ABSENT_SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[Hashable, float] = {}

    def left(self, key: Hashable, now: float) -> float:
        """Return the seconds left of the grace period, which begins with the first call; 0 if it is over.

        :param now: monotonic time in seconds
        """
        return max(0.0, self._since.setdefault(key, now) + self._seconds - now)

    def is_running(self, key: Hashable) -> bool:
        """Return True if a grace period has begun, whether or not it is over."""
        return key in self._since

    def end(self, key: Hashable) -> None:
        """Forget an absence. The next one has a grace period of its own."""
        self._since.pop(key, None)
