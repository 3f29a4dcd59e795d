"""A target's circuit: whether it answers so slowly that pods go elsewhere where they can."""

from dataclasses import dataclass

from agent.kube.responsiveness import Pace

LOOK_SECONDS = 0.25
"""Pause between looks at how promptly targets answer."""

_TIMES_LOCAL = 4.0
_LOOKS = 2


@dataclass
class LatencyMonitor:
    """`slow` changes when looks in a row agree, so that one late answer means nothing.

    A target is slow when its answers take more than `limit` seconds and four times as long as those of this cluster's
    own API server: when this machine is what is slow, all are. It is prompt again when the average and the latest
    answer are below half of that: the average alone takes several late answers to rise.
    """

    limit: float = 0.5
    slow: bool = False
    _looks: int = 0

    def look(self, pace: Pace, local: float) -> bool:
        """Judge how promptly a target answers, where our own API server takes `local` seconds.

        Returns whether `slow` changed.
        """
        bound = max(self.limit, _TIMES_LOCAL * local)
        late = max(pace.seconds, pace.latest) > bound / 2 if self.slow else pace.seconds > bound
        if late == self.slow:
            self._looks = 0
            return False
        self._looks += 1
        if self._looks < _LOOKS:
            return False
        self._looks = 0
        self.slow = not self.slow
        return True
