"""Latency monitor of a target: a slow target receives no pods that other targets can run."""

from dataclasses import dataclass

from agent.kube.responsiveness import Pace

LOOK_SECONDS = 0.25
"""Seconds between checks of the targets' latency."""

_TIMES_LOCAL = 4.0
_LOOKS = 2


@dataclass
class LatencyMonitor:
    """Monitor whose `slow` changes only after consecutive checks agree, so that one late answer has no effect.

    A target is slow if its answers take longer than `limit` seconds and four times as long as those of the
    local API server: if this machine is slow, all answers are late. It is prompt again once the average and the
    latest answer are below half of that: the average rises only after several late answers.
    """

    limit: float = 0.5
    slow: bool = False
    _looks: int = 0

    def look(self, pace: Pace, local: float) -> bool:
        """Judge a target's latency; return whether `slow` changed.

        :param local: latency of the local API server in seconds
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
