"""A target's circuit: whether it answers so slowly that pods go elsewhere where they can."""

from dataclasses import dataclass

LOOK_SECONDS = 0.25
"""Pause between looks at how promptly targets answer."""

_TIMES_LOCAL = 4.0
_LOOKS = 2


@dataclass
class LatencyMonitor:
    """`slow` changes when looks in a row agree, so that one late answer means nothing.

    A target is slow when its answers take more than `limit` seconds and four times as long as those of this cluster's
    own API server: when this machine is what is slow, all are. It is prompt again at half of that.
    """

    limit: float = 0.5
    slow: bool = False
    _looks: int = 0

    def look(self, seconds: float, local: float) -> bool:
        """Take note of how long a target and our own API server take to answer; returns whether `slow` changed."""
        bound = max(self.limit, _TIMES_LOCAL * local)
        if (seconds > (bound / 2 if self.slow else bound)) == self.slow:
            self._looks = 0
            return False
        self._looks += 1
        if self._looks < _LOOKS:
            return False
        self._looks = 0
        self.slow = not self.slow
        return True
