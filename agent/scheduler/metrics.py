"""Metrics of the proxy scheduler."""

import time
from collections.abc import Callable
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram

from agent.base.metrics import LATENCY_BUCKETS, REGISTRY

PHASE = Histogram(
    "flotilla_scheduling_phase_seconds",
    "Seconds of each scheduling phase of a pod. queue: from the time at which it needs a target, or was refused by one,"
    " to its claim (mode ranked) or first candidate (reserve). rank: one ranking. candidate: until its first"
    " PodChaperon is in a target. reserve: from there until a reservation is claimed. bind: from there, or from the"
    " PodChaperon, until the pod is bound.",
    ("phase",),
    buckets=LATENCY_BUCKETS,
    registry=REGISTRY,
)
ATTEMPTS = Counter(
    "flotilla_scheduling_attempts_total",
    "Attempts to run a pod in a target, by outcome: bound, or refused by the target.",
    ("mode", "outcome"),
    registry=REGISTRY,
)
REFUSALS = Counter(
    "flotilla_scheduling_refusals_total",
    "Targets that a pod's condition lists as unavailable, by reason, counted at each update of the condition.",
    ("reason",),
    registry=REGISTRY,
)
IN_FLIGHT = Gauge("flotilla_scheduling_pods_in_flight", "Elected pods that are not bound yet.", registry=REGISTRY)

Phase = Literal["queue", "candidate", "reserve", "bind"]
_ORDER: tuple[Phase, ...] = ("queue", "candidate", "reserve", "bind")


class Stopwatch:
    """Measures the phases of pods by UID; each begins at the end of the one before."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[float, int]] = {}
        """End of the last phase, and its number; -1 for none."""

    def count(self) -> int:
        """Return the number of pods that are timed."""
        return len(self._marks)

    def begin(self, uid: str) -> None:
        """Start timing a pod when it is first seen."""
        self._marks.setdefault(uid, (time.monotonic(), -1))

    def again(self, uid: str) -> None:
        """Restart timing after a target has refused the pod: it is queued again."""
        if uid in self._marks:
            self._marks[uid] = (time.monotonic(), -1)

    def lap(self, uid: str, phase: Phase) -> None:
        """Observe the end of a phase. A phase that the pod has already completed does not count, such as by a second
        candidate.
        """
        self.ending(uid, phase)()

    def ending(self, uid: str, phase: Phase) -> Callable[[], None]:
        """Return a function that observes the end of a phase, even after the pod's timing has ended."""
        number = _ORDER.index(phase)
        mark = self._marks.get(uid)

        def end() -> None:
            if mark is not None and mark[1] < number:
                now = time.monotonic()
                PHASE.labels(phase).observe(now - mark[0])
                if uid in self._marks:
                    self._marks[uid] = (now, number)

        return end

    def end(self, uid: str) -> None:
        """Stop timing a pod that needs no target any longer."""
        self._marks.pop(uid, None)
