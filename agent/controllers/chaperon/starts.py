"""How long delegates of this cluster take from their node to their start, and how long to wait for that. Pure."""

LONGEST_SECONDS = 2.0
_FIRST_SECONDS = 0.15
_LEAST_SECONDS = 1.0
"""Where starts are quick they end the wait; it is only as long as this on a cluster that is slower than usual."""
_LONG_SECONDS = 1.5
"""Where starts take longer on average, few would come within the wait."""
_SHARE = 0.1
"""Of the latest start in the average."""
_FACTOR = 3.0


class Starts:
    """A moving average of what is noted."""

    def __init__(self) -> None:
        self._average = _FIRST_SECONDS

    def note(self, seconds: float) -> None:
        """A delegate started so long after it had got its node."""
        self._average += _SHARE * (min(seconds, LONGEST_SECONDS) - self._average)

    @property
    def hold(self) -> float:
        """Seconds that the news of a node waits for that of the start; 0 where starts take too long to be waited for,
        as those of real containers usually do.
        """
        if self._average > _LONG_SECONDS:
            return 0.0
        return min(LONGEST_SECONDS, max(_LEAST_SECONDS, _FACTOR * self._average))
