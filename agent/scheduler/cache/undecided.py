"""Undecided: why a Placement evaluated by this agent has not decided for clusters, computed when a pod reports it.

The scheduler evaluates the Placement again, so that no reasons per cluster have to be stored.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from agent.base.clock import Clock
from agent.clusters.placement_mode import PlacementMode
from agent.clusters.stores.placement_inputs import Change
from agent.kube.store import Key, Object
from agent.ranking.explain import without_figures
from agent.ranking.placing.evaluate import candidates, cel_expressions, evaluate
from agent.ranking.placing.inputs import CelVerdicts, PlacementInputs

LOOK_SECONDS = 2.0
"""Interval between re-evaluations of two Placements, which limits CPU use and the number of woken pods."""

Reasons = Mapping[str, str]
"""Reason by cluster."""


class Written(NamedTuple):
    """A Placement, and the decisions written for it."""

    placement: Object
    decided: Collection[str]
    elsewhere: Mapping[str, int]
    """Number of decisions of all other Placements that name each cluster."""


class Undecided:
    """Evaluates from existing watches if this agent evaluates Placements; otherwise returns no reasons.

    It calls `changed` with a Placement whose reasons have changed since they were read, until it is forgotten. A change
    of numbers alone does not count.
    """

    def __init__(
        self,
        mode: PlacementMode,
        clock: Clock,
        written: Callable[[Key], Written | None],
        changed: Callable[[Key], None],
    ) -> None:
        self._mode = mode
        self._clock = clock
        self._written = written
        self._changed = changed
        self._watching = False
        self._told: dict[Key, Reasons] = {}
        self._stale: dict[Key, None] = {}
        """Placements whose reasons may be outdated, in the order of re-evaluation."""
        self._timer: asyncio.TimerHandle | None = None

    def reasons(self, placement: Key) -> Reasons:
        """Return the Placement's reasons, evaluated once for all pods that wait for it."""
        if placement not in self._told:
            self._told[placement] = self._evaluated(placement)
        return self._told[placement]

    def forget(self, placement: Key) -> None:
        """Drop the reasons of a Placement that has new decisions or no waiting pods."""
        self._told.pop(placement, None)
        self._stale.pop(placement, None)

    def doubt(self) -> None:
        """Mark all reasons as outdated after one of their inputs has changed."""
        if len(self._stale) < len(self._told):
            self._stale.update(dict.fromkeys(self._told))
        self._wait()

    def _wait(self) -> None:
        if self._stale and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        placement = next(iter(self._stale), None)
        if placement is not None:
            del self._stale[placement]
            before, after = self._told[placement], self._evaluated(placement)
            self._told[placement] = after
            if _says_otherwise(before, after):
                self._changed(placement)
        self._wait()

    def _evaluated(self, placement: Key) -> Reasons:
        fleet = self._known_fleet()
        written = self._written(placement) if fleet is not None else None
        if fleet is None or written is None:
            return {}
        manifest, now = written.placement.decode(), self._clock.now()
        found = evaluate(
            manifest, fleet, decided=written.decided, elsewhere=written.elsewhere, cel=CelVerdicts(), now=now
        ).refused
        if not cel_expressions(manifest):
            return found
        # CEL results, which concern all members of the sets, exist in the deciding controller only.
        inside = frozenset(candidates(manifest, fleet))
        return {cluster: reason for cluster, reason in found.items() if cluster not in inside}

    def _known_fleet(self) -> PlacementInputs | None:
        if self._mode.mode != "serve":
            return None
        watched = self._mode.fleet
        if not self._watching:
            self._watching = True
            watched.subscribe(self._fleet_changed)
        return watched.fleet if watched.known else None

    def _fleet_changed(self, change: Change | None) -> None:
        if change is None or change.before != change.after:
            self.doubt()


def _says_otherwise(before: Reasons, after: Reasons) -> bool:
    if before.keys() != after.keys():
        return True
    changed = (cluster for cluster, reason in after.items() if reason != before[cluster])
    return any(without_figures(before[cluster]) != without_figures(after[cluster]) for cluster in changed)
