"""A token bucket: so many at once, and so many per second in the long run."""


class Allowance:
    """Full at first. Times are seconds of a clock that is never set back."""

    def __init__(self, per_second: float, at_once: float) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._left = at_once
        self._since = 0.0

    def take(self, now: float) -> bool:
        """Take one, if there is one."""
        self._left = min(self._at_once, self._left + max(0.0, now - self._since) * self._per_second)
        self._since = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
