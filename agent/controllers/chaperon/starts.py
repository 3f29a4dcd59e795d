"""How long delegates of this cluster take from their node to their start, and how long to wait for that. Pure."""

LONGEST_SECONDS = 2.0
_FIRST_SECONDS = 0.15
_SHARE = 0.05
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
        hold = _FACTOR * self._average
        return hold if hold <= LONGEST_SECONDS else 0.0
