"""Decisions: results of Placements for the pods that follow them, from either evaluator.

A pod that names a Placement waits until its decision is readable; other pods are not affected.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from agent.api.kinds import PLACEMENT_DECISIONS, PLACEMENTS
from agent.base.clock import Clock
from agent.clusters.placement_mode import PlacementMode
from agent.clusters.stores.placement_decisions import (
    Owner,
    Part,
    owner_in,
    owner_of,
    part_of,
    parts_of,
    placed_by,
    reference_of,
)
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.ranking.placed import Placed, Reference
from agent.scheduler.cache.undecided import Reasons, Undecided, Written

SETTLE_SECONDS = 0.05
_LONGEST_SECONDS = 1.0
"""Longest debounce in seconds: a Placement may have several PlacementDecisions, written one after the other."""
NOT_USED = "no Placements are used here: install their CRDs (chart value agent.placement.crds), or see --placement"
_NOT_READ = "it has not been read yet"


class Decisions:
    """Calls `changed` with the keys of pods whose Placement has new decisions, or other reasons than before."""

    def __init__(
        self, mode: PlacementMode, namespaces: Informer, clock: Clock, changed: Callable[[Iterable[Key]], None]
    ) -> None:
        self._mode = mode
        self._undecided = Undecided(mode, clock, self._written, self._reasons_changed)
        self._namespaces = namespaces
        self._changed = changed
        self._named: Counter[str] | None = None
        """Number of decisions that name each cluster; None if they have changed since they were counted."""
        self._placed: dict[Owner, dict[Reference, Placed]] = {}
        self._followers: dict[Owner, dict[str, Key]] = {}
        """Pods without a node, by Placement and UID."""
        self._following: dict[str, Owner] = {}
        """Placement that each pod follows, by UID: the inverse of `_followers`."""
        self._touched: set[Owner] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._decisions = mode.watch(PLACEMENT_DECISIONS)
        self._placements = mode.watch(PLACEMENTS)
        self._decisions.subscribe(self._decision_changed, self._turned)
        self._placements.subscribe(self._placement_changed, self._turned)
        mode.on_turn(self._turned)

    def reference(self, pod: Object) -> Reference | None:
        """Return the Placement that a pod follows; None if none."""
        return reference_of(pod, self._namespaces.store.get(("", pod.namespace)))

    def of(self, pod: Object) -> Placed | None:
        """Return the decision of the Placement that a pod follows; None if the pod follows none."""
        reference = self.reference(pod)
        if reference is None:
            return None
        owner = owner_of((pod.namespace, reference.name))
        known = self._placed.get(owner, {}).get(reference)
        if known is None:
            if why := self._unread():
                return Placed(reference, {}, why, known=False)
            known = self._placed.setdefault(owner, {})[reference] = self._make(owner, reference)
        return known

    def follow(self, pod: Object) -> None:
        """Call `changed` with the key of this pod, which has no node yet, from now on."""
        reference = self.reference(pod)
        owner = owner_of((pod.namespace, reference.name)) if reference is not None else None
        if self._following.get(pod.uid) != owner:
            self.forget(pod.uid)
            if owner is not None:
                self._following[pod.uid] = owner
                self._followers.setdefault(owner, {})[pod.uid] = pod.key

    def forget(self, uid: str) -> None:
        """Stop following for a pod that has a node or has been deleted."""
        owner = self._following.pop(uid, None)
        if owner is not None:
            followers = self._followers[owner]
            del followers[uid]
            if not followers:
                del self._followers[owner]
                for reference in self._placed.pop(owner, ()):
                    self._undecided.forget((owner[0], reference.name))

    def reasons(self, placement: Key) -> Reasons:
        """Return why the Placement has not decided for clusters, by cluster; empty if unknown, or if no pod follows
        it.
        """
        return self._undecided.reasons(placement) if owner_of(placement) in self._placed else {}

    def _written(self, placement: Key) -> Written | None:
        obj = self._placement(placement)
        if obj is None:
            return None
        if self._named is None:
            every = (part_of(obj) for obj in self._decisions.store or () if owner_in(obj) is not None)
            self._named = Counter(_clusters(filter(None, every)))
        mine = Counter(_clusters(parts_of(self._decisions, owner_of(placement))))
        return Written(obj, mine.keys(), self._named - mine)

    def _reasons_changed(self, placement: Key) -> None:
        self._changed(tuple(self._followers.get(owner_of(placement), {}).values()))

    def can_tell(self, pod: Object) -> bool:
        """Return True if the pod's Placement and decisions have been read; False for a moment after the agent
        starts.
        """
        if self._mode.mode == "off" or self.reference(pod) is None:
            return True
        watches = (self._decisions, self._placements)
        return self._mode.active and all(each.store is not None or each.refusal for each in watches)

    def _make(self, owner: Owner, reference: Reference) -> Placed:
        if why := self._unread():
            return Placed(reference, {}, why, known=False)
        placement, store = self._placement((owner[0], reference.name)), self._placements.store
        parts = parts_of(self._decisions, owner)
        return placed_by(reference, owner[0], parts, placement, is_missing=placement is None and store is not None)

    def _placement(self, key: Key) -> Object | None:
        store = self._placements.store
        return store.get(key) if store is not None else None

    def _unread(self) -> str:
        """Return why no Placement can be read; empty if they can."""
        if self._mode.mode is None:
            return _NOT_READ
        if not self._mode.active:
            return NOT_USED
        if self._decisions.store is None:
            return self._decisions.refusal or _NOT_READ
        return ""

    def _decision_changed(self, old: Object | None, new: Object | None) -> None:
        self._named = None
        for owner in {owner_in(obj) for obj in (old, new) if obj is not None} - {None}:
            assert owner is not None
            self._touch(owner)

    def _placement_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is not None:
            self._touch(owner_of(obj.key))

    def _turned(self) -> None:
        """Recompute all decisions after a kind has become readable or unreadable."""
        self._named = None
        for owner in {*self._followers, *self._placed}:
            self._touch(owner)

    def _touch(self, owner: Owner) -> None:
        self._undecided.doubt()
        if owner in self._placed or owner in self._followers:
            self._touched.add(owner)
            now = asyncio.get_running_loop().time()
            if self._timer is None:
                self._since = now
            else:
                self._timer.cancel()
            due = min(now + SETTLE_SECONDS, self._since + _LONGEST_SECONDS)
            self._timer = asyncio.get_running_loop().call_at(due, self._settle)

    def _settle(self) -> None:
        self._timer = None
        touched, self._touched = self._touched, set()
        for owner in touched:
            before = self._placed.get(owner, {})
            after = {reference: self._make(owner, reference) for reference in before}
            if before and all(before[reference].is_same(placed) for reference, placed in after.items()):
                continue
            self._placed[owner] = after
            for reference in after:
                self._undecided.forget((owner[0], reference.name))
            self._changed(tuple(self._followers.get(owner, {}).values()))


def _clusters(parts: Iterable[Part]) -> Iterator[str]:
    return (each.cluster for part in parts for each in part.decided)
