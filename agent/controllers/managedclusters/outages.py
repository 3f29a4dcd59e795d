"""Outages of clusters: for how long each has been unknown to this process, without seconds in which most were silent.

No I/O. If most clusters are silent, the fault is probably the source's own: Placements keep their decisions.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.api.conditions import find_condition
from agent.clusters.silent_clusters import Member, SilentClusters, counted_as
from agent.clusters.target import State
from agent.kube.store import Key

_SILENT = (State.UNREACHABLE, State.FAILING)
"""Reasons of Targets that give no answer, or errors only."""


class Outages:
    """Silent Targets, and ManagedClusters that are unknown."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """:param clock: seconds of a clock that is never set"""
        self._clock = clock
        self._clusters = SilentClusters()
        self._since: dict[str, float] = {}
        """ManagedClusters that are unknown, since when."""
        self._held_since: float | None = None

    def put(self, key: Key, target: Mapping[str, Any] | None) -> Iterable[str]:
        """Record a Target, None after its deletion. Return the ManagedClusters whose outage counts again."""
        if target is None:
            self._clusters.remove(key)
        else:
            self._clusters.put(key, Member(counted_as(target), _is_silent(target)))
        if self._clusters.held == (self._held_since is not None):
            return ()
        now, held_since = self._clock(), self._held_since
        if held_since is None:
            self._held_since = now
            return ()
        self._since = {name: since + now - max(since, held_since) for name, since in self._since.items()}
        self._held_since = None
        return tuple(self._since)

    def note(self, name: str, *, unknown: bool) -> None:
        """Record whether a ManagedCluster is unknown."""
        if unknown:
            self._since.setdefault(name, self._clock())
        else:
            self._since.pop(name, None)

    def seconds(self, name: str) -> float:
        """Seconds for which a ManagedCluster has been unknown; 0 while it is known."""
        now = self._clock() if self._held_since is None else self._held_since
        return max(0.0, now - self._since.get(name, now))

    def due(self, name: str, after: float) -> float | None:
        """Return in how many seconds an outage will have lasted for so long, None if that is no matter of time."""
        left = after - self.seconds(name)
        return left if name in self._since and self._held_since is None and 0 < left < math.inf else None


def _is_silent(target: Mapping[str, Any]) -> bool:
    ready = find_condition((target.get("status") or {}).get("conditions"), "Ready") or {}
    return ready.get("status") == "False" and ready.get("reason") in _SILENT
