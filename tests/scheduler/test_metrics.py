"""Phases of pods, timed on a clock that the test sets."""

import pytest

from agent.base.metrics import REGISTRY, shown
from agent.scheduler import metrics
from agent.scheduler.metrics import Phase, Stopwatch


class Watch:
    """Stopwatch and its measurements."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 100.0
        monkeypatch.setattr(metrics.time, "monotonic", lambda: self.time)
        self.stopwatch = Stopwatch()
        self._before = {phase: self._total(phase) for phase in ("queue", "candidate", "reserve", "bind")}

    def lap(self, phase: Phase, seconds: float) -> None:
        self.time += seconds
        self.stopwatch.lap("u1", phase)

    def measured(self, phase: str) -> tuple[float, float]:
        """Return the number of measurements and their sum in seconds."""
        (count, seconds), (old_count, old_seconds) = self._total(phase), self._before[phase]
        return count - old_count, round(seconds - old_seconds, 6)

    @staticmethod
    def _total(phase: str) -> tuple[float, float]:
        name = "flotilla_scheduling_phase_seconds"
        found = [REGISTRY.get_sample_value(f"{name}_{suffix}", {"phase": phase}) for suffix in ("count", "sum")]
        return found[0] or 0.0, found[1] or 0.0


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def in_flight() -> float | None:
    return REGISTRY.get_sample_value("flotilla_scheduling_pods_in_flight")


def test_each_phase_lasts_from_the_end_of_the_one_before(watch: Watch) -> None:
    watch.stopwatch.begin("u1")
    watch.lap("queue", 1.0)
    watch.lap("candidate", 2.0)
    watch.lap("bind", 4.0)
    assert [watch.measured(phase) for phase in ("queue", "candidate", "reserve", "bind")] == [
        (1, 1.0),
        (1, 2.0),
        (0, 0.0),
        (1, 4.0),
    ]


def test_only_the_first_candidate_of_many_counts(watch: Watch) -> None:
    watch.stopwatch.begin("u1")
    watch.lap("queue", 1.0)
    watch.lap("queue", 0.5)
    watch.lap("candidate", 0.5)
    watch.lap("candidate", 3.0)
    watch.lap("reserve", 1.0)
    assert watch.measured("queue") == (1, 1.0)
    assert watch.measured("candidate") == (1, 1.0)
    assert watch.measured("reserve") == (1, 4.0)


def test_a_pod_that_was_refused_is_in_the_queue_again(watch: Watch) -> None:
    watch.stopwatch.begin("u1")
    watch.lap("queue", 1.0)
    watch.lap("candidate", 1.0)
    watch.time += 7.0
    watch.stopwatch.again("u1")
    watch.lap("queue", 2.0)
    assert watch.measured("queue") == (2, 3.0)


def test_pods_are_in_flight_until_their_end(watch: Watch) -> None:
    with shown(metrics.IN_FLIGHT, watch.stopwatch.count):
        watch.stopwatch.begin("u1")
        watch.stopwatch.begin("u1")
        watch.stopwatch.begin("u2")
        assert in_flight() == 2
        watch.stopwatch.end("u1")
        watch.stopwatch.end("u1")
        watch.stopwatch.end("u2")
        assert in_flight() == 0
        watch.stopwatch.again("u1")
        watch.lap("queue", 1.0)
        assert in_flight() == 0
        assert watch.measured("queue") == (0, 0.0)


def test_a_phase_counts_that_ends_after_the_pod_is_known_to_need_nothing_more(watch: Watch) -> None:
    watch.stopwatch.begin("u1")
    watch.lap("queue", 1.0)
    bound = watch.stopwatch.ending("u1", "bind")
    watch.stopwatch.end("u1")
    watch.time += 2.0
    bound()
    assert watch.measured("bind") == (1, 2.0)
    assert in_flight() == 0
