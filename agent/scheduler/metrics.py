"""What the proxy scheduler measures."""

import time
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram

from agent.base.metrics import LATENCY_BUCKETS, REGISTRY

PHASE = Histogram(
    "flotilla_scheduling_phase_seconds",
    "Seconds of each phase of a pod: queue (until it is looked at), rank, candidate (until its chaperon is sent),"
    " reserve (until a reservation is claimed), bind (from then until it is bound).",
    ("phase",),
    buckets=LATENCY_BUCKETS,
    registry=REGISTRY,
)
ATTEMPTS = Counter(
    "flotilla_scheduling_attempts_total",
    "Attempts to run a pod in a target by outcome: bound, or refused there.",
    ("mode", "outcome"),
    registry=REGISTRY,
)
REFUSALS = Counter(
    "flotilla_scheduling_refusals_total",
    "Targets refused for a pod, by reason, each time that is told on the pod.",
    ("reason",),
    registry=REGISTRY,
)
IN_FLIGHT = Gauge("flotilla_scheduling_pods_in_flight", "Pods that are not bound yet.", registry=REGISTRY)

Phase = Literal["queue", "candidate", "reserve", "bind"]


class Stopwatch:
    """Times the phases of pods by UID; a phase lasts from the end of the one before."""

    def __init__(self) -> None:
        self._marks: dict[str, float] = {}
        IN_FLIGHT.set_function(lambda: len(self._marks))

    def begin(self, uid: str) -> None:
        """The pod was seen first."""
        self._marks.setdefault(uid, time.monotonic())

    def lap(self, uid: str, phase: Phase) -> None:
        """A phase ends."""
        now = time.monotonic()
        before = self._marks.get(uid)
        if before is not None:
            PHASE.labels(phase).observe(now - before)
            self._marks[uid] = now

    def end(self, uid: str) -> None:
        """The pod needs nothing more."""
        self._marks.pop(uid, None)
