"""Outages of clusters: seconds without an answer, not counting times in which most clusters are silent. No I/O.

If most clusters are silent, the fault is probably the source's own, and Placements keep their decisions.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agent.api.conditions import find_condition
from agent.clusters.health.silent_clusters import Member, SilentClusters, counted_as
from agent.clusters.target import State
from agent.kube.store import Key

_SILENT = (State.UNREACHABLE, State.FAILING)
"""Reasons in the condition Ready of Targets that give no answer, or only errors."""
_ANSWERS = (State.READY, State.UNAUTHORIZED, State.FORBIDDEN, State.NOT_INSTALLED)
"""Reasons in the condition Ready of Targets whose API server answers, so that pods in the cluster may be running."""

Conditions = Sequence[Mapping[str, Any]]


class Outages:
    """Silent Targets, and ManagedClusters whose Targets are silent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """:param clock: returns the seconds of a monotonic clock"""
        self._clock = clock
        self._clusters = SilentClusters()
        self._since: dict[str, float] = {}
        """Start of the silence by ManagedCluster, moved forward by times in which most clusters are silent."""
        self._held_since: float | None = None

    def put(self, key: Key, target: Mapping[str, Any] | None) -> Iterable[str]:
        """Record a Target, None after its deletion. Return the ManagedClusters whose outage counts again."""
        if target is None:
            self._clusters.remove(key)
        else:
            told = (target.get("status") or {}).get("conditions") or ()
            self._clusters.put(key, Member(counted_as(target), _reason(told) in _SILENT))
        if self._clusters.held == (self._held_since is not None):
            return ()
        now, held_since = self._clock(), self._held_since
        if held_since is None:
            self._held_since = now
            return ()
        self._since = {name: since + now - max(since, held_since) for name, since in self._since.items()}
        self._held_since = None
        return tuple(self._since)

    def note(self, name: str, *, silent: bool) -> None:
        """Record whether a ManagedCluster is silent."""
        if silent:
            self._since.setdefault(name, self._clock())
        else:
            self._since.pop(name, None)

    def seconds(self, name: str) -> float | None:
        """Return the seconds for which a ManagedCluster has been silent; None if it is not."""
        if name not in self._since:
            return None
        now = self._clock() if self._held_since is None else self._held_since
        return max(0.0, now - self._since[name])

    def due(self, name: str, after: float) -> float | None:
        """Return the seconds until an outage has lasted `after` seconds; None if no such moment lies ahead."""
        seconds = self.seconds(name)
        if seconds is None or self._held_since is not None:
            return None
        return after - seconds if 0 < after - seconds < math.inf else None


def are_silent(targets: Iterable[Conditions]) -> bool:
    """Return True if at least one Target of a cluster gets no answer and no other Target gets one.

    A Target whose credentials are refused is not silent. A Target that is connecting, or has no usable kubeconfig,
    does not count.
    """
    reasons = {_reason(conditions) for conditions in targets}
    return not reasons.isdisjoint(_SILENT) and reasons.isdisjoint(_ANSWERS)


def _reason(conditions: Conditions) -> str:
    """Return the reason of the condition Ready; empty if there is no such condition."""
    return str((find_condition(conditions, "Ready") or {}).get("reason") or "")
