"""Results of the services benchmark: of one measurement, and medians of several."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hack.lab.benchmarks.lab import Phase
from hack.lab.benchmarks.stats import Spread


@dataclass(frozen=True)
class Found:
    """Results. Seconds from the first request that creates a Service, or from a delegate Ready."""

    ready: float
    """Seconds until the last delegate was Ready in its target."""
    right: float
    """Seconds from then until all slices in all clusters were right."""
    lags: list[float]
    """By Service: seconds from its last delegate Ready until its slices in all clusters were right."""
    steps: dict[str, list[float]]
    """Likewise until its PodChaperons, its proxy pods, and the slices of each cluster were right."""
    work: Phase
    stored: dict[str, float]
    """Writes by resource that the API servers accepted from all programs."""
    steady: Phase


@dataclass(frozen=True)
class Rounds:
    """Results of all rounds of the same code."""

    found: Sequence[Found]

    @property
    def ready(self) -> float:
        """Median of the seconds until the last delegate was Ready."""
        return statistics.median(each.ready for each in self.found)

    @property
    def right(self) -> float:
        """Median of the seconds from then until all slices were right."""
        return statistics.median(each.right for each in self.found)

    @property
    def lags(self) -> Spread:
        """Percentiles over the Services of all rounds."""
        return Spread.of([lag for each in self.found for lag in each.lags])

    @property
    def steps(self) -> dict[str, Spread]:
        """Percentiles of each step over the Services of all rounds."""
        return {
            name: Spread.of([lag for each in self.found for lag in each.steps[name]]) for name in self.found[0].steps
        }

    @property
    def cpu(self) -> dict[str, float]:
        """Median of the CPU seconds of each process."""
        return _median(each.work.cpu for each in self.found)

    @property
    def writes(self) -> dict[str, float]:
        """Median of the writes of agents and webhooks."""
        return _median(each.work.writes for each in self.found)

    @property
    def stored(self) -> dict[str, float]:
        """Median of the accepted writes of all programs, by resource."""
        return _median(each.stored for each in self.found)

    @property
    def steady(self) -> dict[str, float]:
        """Largest number of writes in steady state."""
        keys = {key for each in self.found for key in each.steady.writes}
        return {key: max(each.steady.writes.get(key, 0.0) for each in self.found) for key in sorted(keys)}


def _median(values: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found = list(values)
    keys = {key for each in found for key in each}
    return {key: statistics.median(each.get(key, 0.0) for each in found) for key in sorted(keys)}
