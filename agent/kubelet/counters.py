"""Counters of container usage: derived from the rates of metrics.k8s.io, because a kubelet serves counters. Pure.

A rate is an average over a window that ends at a time of the target's clock. The counter grows by the rate times the
time since the previous sample: the newer sample also counts for gaps between windows. So a counter and its time always
match a sample of the target, and never decrease.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

LONGEST_GAP = 300.0
"""Maximum seconds that a sample counts for: without requests the agent reads no samples."""

_FIRST = 1_000_000
"""Nanoseconds of a core that a container has used at least when it is first seen: metrics-server takes a counter of 0
for one that is missing, and leaves out a whole pod for one container that sleeps."""

Pod = tuple[str, str]
"""UIDs of a proxy pod and of its chaperon."""
Key = tuple[str, str, str]
"""The key of a pod with the name of the container."""


class Sample(msgspec.Struct, frozen=True):
    """Usage of a container: nanocores on average over `window` seconds until `at`, and bytes of its working set."""

    at: datetime
    window: float
    nanocores: int
    memory: int


@dataclass(frozen=True)
class Reading:
    """A container's usage with its counter, in nanoseconds of a core."""

    at: datetime
    nanocores: int
    memory: int
    nanoseconds: int


@dataclass
class Counters:
    """The counters of one virtual node."""

    node: int = 0
    """Usage of all containers so far, in nanoseconds of a core."""
    _readings: dict[Key, Reading] = field(default_factory=dict)

    def take(self, samples: Iterable[tuple[Key, Sample]], pods: Collection[Pod]) -> Mapping[Key, Reading]:
        """Return the readings of these containers. A container without a sample this time later continues from its last
        one.

        :param pods: existing pods; readings of other pods are dropped
        """
        kept = {key: reading for key, reading in self._readings.items() if key[:2] in pods}
        readings = {}
        for key, sample in samples:
            reading, grown = _advance(self._readings.get(key), sample)
            readings[key] = reading
            self.node += grown
        self._readings = {**kept, **readings}
        return readings


def _advance(before: Reading | None, sample: Sample) -> tuple[Reading, int]:
    """Return the reading after a sample, and by how much its counter has grown."""
    if before is not None and sample.at <= before.at:
        return before, 0
    seconds = sample.window
    if before is not None:
        seconds = min((sample.at - before.at).total_seconds(), LONGEST_GAP)
    grown = round(sample.nanocores * seconds)
    if before is None:
        grown = max(grown, _FIRST)
    total = grown + (before.nanoseconds if before is not None else 0)
    return Reading(sample.at, sample.nanocores, sample.memory, total), grown
