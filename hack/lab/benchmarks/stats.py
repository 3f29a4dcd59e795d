"""Statistics on measured times. Pure."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Percentiles of measured times, in seconds."""

    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, times: Collection[float]) -> "Spread":
        """Compute the percentiles. Raises ValueError without values."""
        return cls(percentile(times, 50), percentile(times, 99), max(times))


def percentile(values: Collection[float], percent: float) -> float:
    """Return the smallest value that at least `percent` per cent of all values do not exceed (nearest rank).

    Raises ValueError for no values, and for a percentage outside ]0, 100].
    """
    if not values:
        raise ValueError("a percentile of no values")
    if not 0 < percent <= 100:
        raise ValueError(f"percentile {percent}: not above 0 and at most 100")
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the growth of each counter, without unchanged ones; new counters count from 0."""
    changes = {key: value - before.get(key, 0.0) for key, value in after.items()}
    return {key: change for key, change in sorted(changes.items()) if change}
