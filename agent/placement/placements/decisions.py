"""Existing PlacementDecisions, and the number of decisions per cluster for the prioritizer Balance."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from agent.api.kinds import PLACEMENT_DECISIONS
from agent.api.names.ocm import decision_name
from agent.clusters.placement_mode import PlacementMode
from agent.clusters.stores.placement_decisions import Owner, decisions_of, owner_in, owner_of
from agent.kube.store import Object
from agent.placement.placements.decide import Present
from agent.placement.placements.interests import Key
from agent.ranking.placing import read

_PLACEMENT = "Placement"
_DELETED = ""
"""Version that represents a deletion."""


class Ledger:
    """Decided clusters by Placement. Calls `changed` with clusters whose number of decisions has changed."""

    def __init__(self, changed: Callable[[Owner, Collection[str]], None]) -> None:
        self._changed = changed
        self._decided: dict[Owner, tuple[str, ...]] = {}
        self._counts: Counter[str] = Counter()

    def put(self, owner: Owner, clusters: Iterable[str]) -> None:
        """Record the decided clusters of a Placement."""
        before, after = self._decided.pop(owner, ()), tuple(clusters)
        if after:
            self._decided[owner] = after
        self._counts.update(after)
        self._counts.subtract(before)
        for cluster in before:
            if not self._counts[cluster]:
                del self._counts[cluster]
        others = Counter(after)
        others.subtract(before)
        changed = [cluster for cluster, count in others.items() if count]
        if changed:
            self._changed(owner, changed)

    def elsewhere(self, owner: Owner) -> dict[str, int]:
        """Return the number of decisions of all other Placements by cluster."""
        counts = dict(self._counts)
        for cluster in self._decided.get(owner, ()):
            counts[cluster] -= 1
        return {cluster: count for cluster, count in counts.items() if count}


class Decisions:
    """PlacementDecisions of all Placements.

    Calls `found` after another writer changed a PlacementDecision, and `balance` as `changed` of Ledger. While a
    Placement is held, its evaluated clusters count instead of those written so far.
    """

    def __init__(
        self,
        mode: PlacementMode,
        found: Callable[[Owner], None],
        balance: Callable[[Owner, Collection[str]], None],
        turned: Callable[[], None],
    ) -> None:
        self._watched = mode.watch(PLACEMENT_DECISIONS)
        self._found = found
        self._balance = balance
        self._turned = turned
        self._ledger = Ledger(balance)
        self._held: dict[Owner, set[str]] = {}
        """Versions that the watch has delivered while a Placement is held."""
        self._own = False
        self._answered: set[str] = set()
        """Versions of the agent's own writes while any Placement is held: the watch may be faster than a response."""
        self._gone: set[str] = set()
        """UIDs of PlacementDecisions that the agent has deleted and the watch still shows."""
        self._watched.subscribe(self._changed, self._turn)

    @property
    def known(self) -> bool:
        """True if all PlacementDecisions have been read."""
        return self._watched.store is not None

    def present(self, key: Key) -> list[Present]:
        """Return the PlacementDecisions of a Placement, and foreign ones with names that it uses."""
        store = self._watched.store
        if store is None:
            return []
        found = {obj.key: obj for obj in decisions_of(self._watched, owner_of(key))}
        number = 1
        while (obj := store.get((key[0], decision_name(key[1], number)))) is not None:
            found[obj.key] = obj
            number += 1
        return [_present(obj) for obj in found.values() if obj.uid not in self._gone]

    def get(self, namespace: str, name: str) -> Object | None:
        """Return a PlacementDecision; None if it does not exist."""
        return self._watched.store.get((namespace, name)) if self._watched.store is not None else None

    def elsewhere(self, key: Key) -> dict[str, int]:
        """Return the number of decisions of all other Placements by cluster."""
        return self._ledger.elsewhere(owner_of(key))

    def hold(self, key: Key, clusters: Iterable[str]) -> None:
        """Begin a write of a Placement's decisions: count these clusters from now on, until `release` counts again."""
        self._held[owner_of(key)] = set()
        self._ledger.put(owner_of(key), clusters)

    def release(self, key: Key) -> None:
        """Release a Placement after its write, successful or not; report changes by other writers during it."""
        told = self._held.pop(owner_of(key), set())
        self._recount(owner_of(key))
        if not told <= self._answered:
            self._found(owner_of(key))
        if not self._held:
            self._answered.clear()

    def written(self, raw: bytes) -> None:
        """Store a PlacementDecision from the response to the agent's own write."""
        self._own = True
        self._answered.add(Object(PLACEMENT_DECISIONS, raw).version)
        try:
            self._watched.absorb(raw)
        finally:
            self._own = False

    def deleted(self, namespace: str, present: Present) -> None:
        """Record that the agent has deleted a PlacementDecision."""
        obj = self.get(namespace, present.name)
        if obj is not None and obj.uid == present.uid:
            self._gone.add(obj.uid)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None and old.uid in self._gone:
            self._gone.discard(old.uid)
            return
        for owner in {owner_in(obj) for obj in (old, new) if obj is not None} - {None}:
            assert owner is not None
            self._recount(owner)
            if owner in self._held and not self._own:
                self._held[owner].add(new.version if new is not None else _DELETED)
            elif not self._own:
                self._found(owner)

    def _recount(self, owner: Owner) -> None:
        if self._watched.store is None or owner in self._held:
            return
        self._ledger.put(
            owner,
            (
                cluster
                for obj in decisions_of(self._watched, owner)
                if obj.uid not in self._gone
                for cluster in read.decided(obj.decode())
            ),
        )

    def _turn(self) -> None:
        """Count again after PlacementDecisions became known or unknown as a whole."""
        self._gone.clear()
        self._ledger = Ledger(self._balance)
        for owner in {owner_in(obj) for obj in self._watched.store or ()} - {None}:
            assert owner is not None
            self._recount(owner)
        self._turned()


def _present(obj: Object) -> Present:
    controller = obj.controller
    status: Any = obj.decode().get("status")
    decisions = status.get("decisions") if isinstance(status, dict) else None
    return Present(
        name=obj.name,
        uid=obj.uid,
        labels=obj.labels,
        owner=controller.uid if controller is not None and controller.kind == _PLACEMENT else "",
        owned=bool(obj.head.metadata.owner_references),
        decisions=tuple(decisions) if isinstance(decisions, list) else None,
    )
