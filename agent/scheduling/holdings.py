"""What of ours each target holds, kept with every change.

A pod *in flight* was sent to a target whose word about free room does not know it yet. A pod that is *unborn* has no
delegate yet, as far as we know, and so is in no quota's figures.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

from agent.scheduling.census import Census, Resident
from agent.scheduling.rooms import Rooms
from agent.scheduling.snapshot import Demand, Place, Wants
from agent.scheduling.standing import Standing
from agent.scheduling.verdict import Verdict

_MEMOS = 16
"""Templates of which is remembered what was found out about each target."""


class Holding:
    """What one target holds. `version` grows with every change."""

    __slots__ = (
        "_rooms",
        "_seated",
        "_standing",
        "coming_sums",
        "flying",
        "images",
        "node",
        "pods",
        "sums",
        "unborn",
        "version",
    )

    def __init__(self, node: str) -> None:
        self.node = node
        self.version = 0
        self.pods: dict[str, Demand] = {}
        """By UID."""
        self.flying: dict[str, Demand] = {}
        self.unborn: dict[str, Demand] = {}
        self.sums: dict[str, int] = {}
        """Of what they request, one of `pods` each."""
        self.coming_sums: dict[str, int] = {}
        """The same of those in flight."""
        self.images: Counter[str] = Counter()
        """Images and how many pods there have them."""
        self._rooms: Rooms | None = None
        self._seated: set[str] = set()
        """UIDs of the pods in flight for which there was room on a node."""
        self._standing: Standing | None = None

    def room(self, place: Place, wants: Wants) -> Verdict | None:
        """Why none of the target's nodes has room beside pods in flight, None when one has."""
        return self._rooms_of(place).verdict(wants)

    def _rooms_of(self, place: Place) -> Rooms:
        if self._rooms is None or self._rooms.place is not place:
            rooms = self._rooms = Rooms(place)
            self._seated = {uid for uid, demand in self.flying.items() if rooms.take(demand.wants)}
        return self._rooms

    def standing(self, place: Place) -> Standing:
        """What the target has for pods."""
        known = self._standing
        if known is None or known.place is not place or known.version != self.version:
            known = self._standing = Standing(place, self)
        return known

    def coming(self, namespace: str) -> list[Wants]:
        """Pods of a namespace that quotas there do not count yet."""
        return [demand.wants for demand in self.unborn.values() if demand.namespace == namespace]

    def without(self, uid: str, place: Place) -> "Holding":
        """The same without one pod of those that are there, for this pod: where it has a node's room, it has room."""
        rooms = self._rooms_of(place)
        other = Holding(self.node) if uid not in self._seated else _Seat(self.node)
        other.pods, other.flying, other.unborn = self.pods.copy(), self.flying.copy(), self.unborn.copy()
        other.sums, other.coming_sums, other.images = self.sums.copy(), self.coming_sums.copy(), self.images.copy()
        other._rooms = rooms
        other.remove(uid)
        return other

    def put(self, uid: str, demand: Demand, *, flying: bool, unborn: bool) -> None:
        """A pod that was not there came."""
        self.version += 1
        self.pods[uid] = demand
        _add(self.sums, demand, 1)
        self.images.update(demand.images)
        if unborn:
            self.unborn[uid] = demand
        if flying:
            self.fly(uid)

    def remove(self, uid: str) -> None:
        """A pod went."""
        demand = self.pods.pop(uid)
        _add(self.sums, demand, -1)
        self.images.subtract(demand.images)
        for image in demand.images:
            if not self.images[image]:
                del self.images[image]
        self.unborn.pop(uid, None)
        self.version += 1
        self.land(uid)

    def land(self, uid: str) -> None:
        """What the target tells of free room knows the pod, or never will."""
        demand = self.flying.pop(uid, None)
        if demand is not None:
            self.version += 1
            _add(self.coming_sums, demand, -1)
            if uid in self._seated:
                self._rooms = None

    def fly(self, uid: str) -> None:
        """The pod has got a node, long after it came."""
        if uid not in self.flying:
            self.version += 1
            self.flying[uid] = demand = self.pods[uid]
            _add(self.coming_sums, demand, 1)
            if self._rooms is not None and self._rooms.take(demand.wants):
                self._seated.add(uid)

    def born(self, uid: str) -> None:
        """The pod has a delegate."""
        if self.unborn.pop(uid, None) is not None:
            self.version += 1


class _Seat(Holding):
    """As seen by a pod that has room on a node there."""

    __slots__ = ()

    def room(self, place: Place, wants: Wants) -> Verdict | None:
        return None


def _add(sums: dict[str, int], demand: Demand, sign: int) -> None:
    for name, amount in demand.requests.items():
        total = sums.get(name, 0) + sign * amount
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


class Holdings:
    """All of them, by virtual node."""

    def __init__(self) -> None:
        self._holdings: dict[str, Holding] = {}
        self._residents: dict[str, Resident] = {}
        self._memos: OrderedDict[Wants, dict[str, Any]] = OrderedDict()
        self.census = Census()

    def __iter__(self) -> Iterator[Resident]:
        return iter(self._residents.values())

    def of(self, node: str) -> Holding:
        """What one target holds."""
        holding = self._holdings.get(node)
        if holding is None:
            holding = self._holdings[node] = Holding(node)
        return holding

    def get(self, uid: str) -> Resident | None:
        """Where a pod is."""
        return self._residents.get(uid)

    def put(
        self, demand: Demand, node: str, *, flying: bool = False, unborn: bool = False, deleting: bool = False
    ) -> None:
        """A pod is there now, wherever it was before."""
        old = self._residents.get(demand.uid)
        new = Resident(demand, node, deleting)
        if old == new:
            return
        if old is not None:
            if old.node == node:
                holding = self.of(node)
                flying, unborn = demand.uid in holding.flying, demand.uid in holding.unborn
            self.remove(demand.uid)
        self._residents[demand.uid] = new
        self.of(node).put(demand.uid, demand, flying=flying, unborn=unborn)
        self.census.note(new, 1)

    def remove(self, uid: str) -> None:
        """A pod is nowhere any more."""
        resident = self._residents.pop(uid, None)
        if resident is not None:
            self._holdings[resident.node].remove(uid)
            self.census.note(resident, -1)

    def memo(self, wants: Wants) -> dict[str, Any]:
        """A place to remember what was found out for pods that ask the same."""
        memo = self._memos.get(wants)
        if memo is None:
            memo = self._memos[wants] = {}
            if len(self._memos) > _MEMOS:
                self._memos.popitem(last=False)
        self._memos.move_to_end(wants)
        return memo
