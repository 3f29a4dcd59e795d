"""Delays before retries, and rate limits."""

import random


class Backoff:
    """Exponential delays in seconds with jitter: `first`, then twice as long each time, at most `cap`.

    Each delay is spread over [half, full] so that many clients that failed together do not come back together.
    """

    __slots__ = ("_attempt", "_cap", "_first")

    def __init__(self, first: float = 0.1, cap: float = 30.0) -> None:
        self._first = first
        self._cap = cap
        self._attempt = 0

    @property
    def attempts(self) -> int:
        """Return the number of delays since the last reset."""
        return self._attempt

    def next(self) -> float:
        """Return the next delay in seconds."""
        full: float = min(self._cap, self._first * 2.0 ** min(self._attempt, 32))
        self._attempt += 1
        return full * (0.5 + random.random() / 2)

    def reset(self) -> None:
        """Start again from the first delay."""
        self._attempt = 0


class Allowance:
    """Full at first. Times are seconds of a clock that is never set back."""

    def __init__(self, per_second: float, at_once: float) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._left = at_once
        self._since = 0.0

    def take(self, now: float) -> bool:
        """Take a token if there is one; return whether there was."""
        self._left = min(self._at_once, self._left + max(0.0, now - self._since) * self._per_second)
        self._since = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
