"""Settings of the probes of targets."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Probing:
    """Intervals and timeouts of probes in seconds, and counts of probes."""

    interval: float = 5.0
    timeout: float = 3.0
    failures: int = 2
    """Consecutive failed probes after which a ready target counts as unreachable."""
    agent_interval: float = 15.0
    """Seconds between readings of the agent lease; a third of this is added to the time after which it counts
    as silent.
    """
    slow: float = 0.5
    """Latency in seconds above which a target is slow (`LatencyMonitor`)."""
    unread: float = 60.0
    """Seconds of failed watching after which a target is no longer ready."""
