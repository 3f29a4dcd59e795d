"""How promptly an API server answers."""

import itertools
import time

_SHARE = 0.3
"""Of the latest answer in the average."""


class Pace:
    """Seconds that requests take: those answered, as a moving average, and those still waiting.

    A moment is one of the monotonic clock.
    """

    def __init__(self) -> None:
        self.average = 0.0
        self._tickets = itertools.count()
        self._waiting: dict[int, float] = {}

    def begin(self) -> int:
        """A request has been sent; returns what `end` needs."""
        ticket = next(self._tickets)
        self._waiting[ticket] = time.monotonic()
        return ticket

    def end(self, ticket: int) -> None:
        """A request has been answered, or given up."""
        seconds = time.monotonic() - self._waiting.pop(ticket)
        self.average += _SHARE * (seconds - self.average)

    @property
    def quiet(self) -> bool:
        """Whether no request is under way."""
        return not self._waiting

    @property
    def seconds(self) -> float:
        """The average, or for how long the oldest request has been waiting, if that is more."""
        if not self._waiting:
            return self.average
        # Dicts keep the order in which requests began.
        return max(self.average, time.monotonic() - next(iter(self._waiting.values())))
