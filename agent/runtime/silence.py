"""For how long watches have heard nothing, computed when the metric is asked for."""

import time
from collections.abc import Iterable, Iterator
from typing import Protocol
from weakref import WeakSet

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.base.metrics import REGISTRY
from agent.kube.errors import Forbidden, NotFound
from agent.kube.informer import Informer


class Watches(Protocol):
    """Those of one cluster."""

    def alive(self) -> Iterator[Informer]:
        """Those that go on."""
        ...


class Silence(Collector):
    """`of` are the clusters whose watches count."""

    _labelnames = ("cluster", "resource")

    def __init__(self) -> None:
        self.of: WeakSet[Watches] = WeakSet()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Of prometheus_client."""
        return [self._empty()]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Of prometheus_client."""
        family, now, longest = self._empty(), time.monotonic(), dict[tuple[str, str], float]()
        for watches in list(self.of):
            for informer in watches.alive():
                if not isinstance(informer.error, (Forbidden, NotFound)):
                    which = (informer.client.name, informer.kind.plural)
                    longest[which] = max(longest.get(which, 0.0), now - informer.hearing.heard)
        for which, seconds in sorted(longest.items()):
            family.add_metric(which, seconds)
        return [family]

    def _empty(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "flotilla_watch_silent_seconds",
            "Seconds since a watch last heard of its API server: an event, a bookmark, part of a list, or leave to go"
            " on; of several watches of a resource the longest. Those that are refused (403, 404) do not count.",
            labels=self._labelnames,
        )


SILENCE = Silence()
REGISTRY.register(SILENCE)
