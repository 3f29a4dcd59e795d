"""Finds pods whose Placement no longer selects their cluster and asks for a move (`when-unplaced`)."""

import asyncio
from collections.abc import Callable, Iterable

from agent.api.kinds import PLACEMENT_DECISIONS, PLACEMENTS
from agent.api.names.ocm import MOVE, WHEN_UNPLACED
from agent.clusters.deps import Deps
from agent.clusters.stores.placement_decisions import owner_in, owner_of, parts_of, placed_by, reference_of
from agent.kube.store import Object
from agent.ranking.placed import Placed, Reference

SETTLE_SECONDS = 2.0
"""Seconds from a change until moves begin: a Placement has several PlacementDecisions, which change in turn."""

_Of = tuple[str, Reference]


class PlacementMoves:
    """Calls `changed` with namespaces of changed Placements and decisions, SETTLE_SECONDS after the first change."""

    def __init__(self, deps: Deps, changed: Callable[[Iterable[str]], None]) -> None:
        self._deps = deps
        self._changed = changed
        self._decisions = deps.placement.watch(PLACEMENT_DECISIONS)
        self._placements = deps.placement.watch(PLACEMENTS)
        self._placed: dict[_Of, Placed | None] = {}
        self._touched: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._decisions.subscribe(self._decision_changed, self._turned)
        self._placements.subscribe(self._placement_changed, self._turned)

    def misplaced(self, pod: Object, cluster: str) -> str:
        """Return why a pod should leave a ManagedCluster; empty if it should not, or if that is unknown."""
        if self._placements.store is None or self._decisions.store is None or not cluster:
            return ""
        reference = reference_of(pod, self._deps.namespaces.get(pod.namespace))
        if reference is None:
            return ""
        key = (pod.namespace, reference)
        if key not in self._placed:
            self._placed[key] = self._make(*key)
        placed = self._placed[key]
        if placed is None or not placed.known or cluster in placed.scores:
            return ""
        return f"its cluster {cluster} is no longer in {placed.title}"

    def _make(self, namespace: str, reference: Reference) -> Placed | None:
        """Return the decisions of a Placement; None if it does not exist or asks for no moves."""
        store = self._placements.store
        placement = store.get((namespace, reference.name)) if store is not None else None
        if placement is None or placement.deleting or placement.annotations.get(WHEN_UNPLACED) != MOVE:
            return None
        parts = parts_of(self._decisions, owner_of(placement.key))
        return placed_by(reference, namespace, parts, placement, is_missing=False)

    def _decision_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            if obj is not None and owner_in(obj) is not None:
                self._touch(obj.namespace)

    def _placement_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self._touch(obj.namespace)

    def _turned(self) -> None:
        for namespace, _ in tuple(self._placed):
            self._touch(namespace)

    def _touch(self, namespace: str) -> None:
        self._touched.add(namespace)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._settle)

    def _settle(self) -> None:
        self._timer = None
        touched, self._touched = self._touched, set()
        for key in [key for key in self._placed if key[0] in touched]:
            del self._placed[key]
        self._changed(touched)
