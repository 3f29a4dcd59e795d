"""How targets are probed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Probing:
    """Intervals and timeouts of probes in seconds, and counts of probes."""

    interval: float = 5.0
    timeout: float = 3.0
    failures: int = 2
    """A target that was ready counts as unreachable after so many failed probes in a row."""
    agent_interval: float = 15.0
    """Pause between readings of the lease of the target's agent; its silence is granted a third of it on top."""
    slow: float = 0.5
    """A target whose answers take longer is slow (`LatencyMonitor`)."""
    unread: float = 60.0
    """A target of which a watch has failed for so long is not ready."""
