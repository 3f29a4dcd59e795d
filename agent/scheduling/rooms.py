"""Whether one single node of a target has room for a pod: nodes' labels, taints, what they have free, host ports.

What a target tells is a moment old. Pods that went there since are put onto the nodes told, as kube-scheduler would by
default (the roomiest first), so that a burst does not overshoot.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent.model.quantity import Quantity
from agent.scheduling.matching import Term, any_term_matches, intolerable, required_terms, selects
from agent.scheduling.snapshot import Amounts, Place, Shape, Wants
from agent.scheduling.verdict import Verdict

_HOSTNAME = "kubernetes.io/hostname"


class Room(NamedTuple):
    """Nodes of one shape that have the same left."""

    shape: int
    amounts: Amounts
    ports: frozenset[str]
    countable: bool
    """Whether these are all such nodes, so that pods in flight can be put onto them one by one."""


class Eligible(NamedTuple):
    """The shapes whose nodes a pod may be on, whatever room they have."""

    shapes: Sequence[bool]
    verdict: Verdict | None
    """Why there is none."""


class Rooms:
    """What the nodes of a target have left beside pods in flight, the roomiest first."""

    __slots__ = ("_counts", "_order", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self._counts: dict[_Key, int] = {}
        self._order: list[Room] = []
        for index, shape in enumerate(place.shapes):
            if shape.unschedulable:
                continue
            if shape.free is None:
                self._add(Room(index, shape.allocatable, frozenset(), False), shape.count)
            else:
                # A large target tells only its best nodes: how many more there are like them is not known.
                told = sum(free.count for free in shape.free) >= shape.count
                for free in shape.free:
                    self._add(Room(index, free.amounts, free.ports, told), free.count)
        self._order.sort(key=_roominess)

    def fits(self, wants: Wants) -> bool:
        """Whether one node has room."""
        return self._find(wants, eligible(self.place, wants).shapes) is not None

    def take(self, wants: Wants) -> bool:
        """Put a pod onto a node; False where no node has room, or it is not known how many have."""
        room = self._find(wants, eligible(self.place, wants).shapes)
        if room is None or not room.countable:
            return False
        key = _key(room)
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
            self._order.remove(room)
        left = {name: amount - wants.requests.get(name, 0) for name, amount in room.amounts.items()}
        self._add(Room(room.shape, left, room.ports | wants.ports, True), 1, ordered=True)
        return True

    def verdict(self, wants: Wants) -> Verdict | None:
        """Why no node has room, None when one has."""
        shapes, none = eligible(self.place, wants)
        if none is not None:
            return none
        if self._find(wants, shapes) is not None:
            return None
        candidates = [shape for shape, may in zip(self.place.shapes, shapes, strict=True) if may]
        if not any(fits(wants.requests, shape.allocatable) for shape in candidates):
            most = [shape.allocatable for shape in candidates]
            return Verdict("TooBig", _short(wants, most, "largest"))
        open_ = [room for room in self._order if shapes[room.shape]]
        roomy = [room for room in open_ if fits(wants.requests, room.amounts)]
        if roomy:
            taken = sorted(wants.ports & frozenset().union(*(room.ports for room in roomy)))
            return Verdict("HostPortTaken", f"host port {', '.join(taken)} is taken on every node with room")
        return Verdict("NoRoom", _short(wants, [room.amounts for room in open_], "largest free"))

    def _find(self, wants: Wants, shapes: Sequence[bool]) -> Room | None:
        wanted, ports = wants.requests, wants.ports
        for room in self._order:
            if shapes[room.shape] and fits(wanted, room.amounts) and not (ports and ports & room.ports):
                return room
        return None

    def _add(self, room: Room, count: int, *, ordered: bool = False) -> None:
        key = _key(room)
        known = self._counts.get(key, 0)
        self._counts[key] = known + count
        if known:
            return
        self._order.append(room)
        if ordered:
            # Nearly sorted lists sort in linear time.
            self._order.sort(key=_roominess)


_Key = tuple[int, frozenset[tuple[str, int]], frozenset[str]]


def _key(room: Room) -> _Key:
    return room.shape, frozenset(room.amounts.items()), room.ports


def _roominess(room: Room) -> tuple[int, int]:
    return -room.amounts.get("cpu", 0), -room.amounts.get("memory", 0)


def fits(wanted: Amounts, there: Amounts) -> bool:
    """Whether there is as much of everything."""
    for name, amount in wanted.items():  # noqa: SIM110 - half the time of a generator
        if there.get(name, 0) < amount:
            return False
    return True


def eligible(place: Place, wants: Wants) -> Eligible:
    """The shapes on whose nodes a pod may be."""
    kind = place.nodes_kind
    found: Eligible | None = wants.known.get(kind)
    if found is None:
        found = wants.known[kind] = _eligible(place.shapes, wants.source)
    return found


def _eligible(shapes: Sequence[Shape], source: Mapping[str, Any]) -> Eligible:
    found: list[bool] = []
    taint: Mapping[str, str] | None = None
    for shape in shapes:
        may, keeps_away = _judge(shape, source)
        taint = taint or keeps_away
        found.append(may)
    if True in found:
        return Eligible(found, None)
    if taint is not None:
        message = f"every matching node has a taint that the pod does not tolerate ({described(taint)})"
        return Eligible(found, Verdict("NoNode", message))
    return Eligible(found, _NO_MATCH)


_NO_MATCH = Verdict("NoNode", "no node matches the pod's node selector or affinity")


def _judge(shape: Shape, source: Mapping[str, Any]) -> tuple[bool, Mapping[str, str] | None]:
    """Whether the pod may be on such nodes, and the taint that keeps it away from those that match."""
    if shape.unschedulable or not _selected(source.get("nodeSelector"), required_terms(source.get("affinity")), shape):
        return False, None
    taint = intolerable(shape.taints, source.get("tolerations") or ())
    return taint is None, taint


def _selected(selector: Mapping[str, str] | None, terms: Sequence[Term] | None, shape: Shape) -> bool:
    """Whether nodes of this shape match; what names a single node cannot be judged from shapes and so matches."""
    if selector and not selects({key: value for key, value in selector.items() if key != _HOSTNAME}, shape.labels):
        return False
    return terms is None or any(map(_names_a_node, terms)) or any_term_matches(terms, shape.labels, "")


def _names_a_node(term: Term) -> bool:
    return bool(term.get("matchFields")) or any(
        expression.get("key") == _HOSTNAME for expression in term.get("matchExpressions") or ()
    )


def described(taint: Mapping[str, str]) -> str:
    """`key=value`, or the key alone."""
    return f"{taint.get('key')}={taint['value']}" if taint.get("value") else str(taint.get("key"))


def _short(wants: Wants, there: Sequence[Amounts], largest: str) -> str:
    short = {
        name: max((amounts.get(name, 0) for amounts in there), default=0)
        for name, amount in wants.requests.items()
        if all(amounts.get(name, 0) < amount for amounts in there)
    }
    if not short:
        return "no single node has room for all that the pod requests"
    return "insufficient " + ", ".join(
        f"{name} on every node ({largest} {Quantity(max(0, amount), _format(name))})"
        for name, amount in sorted(short.items())
    )


def _format(name: str) -> Any:
    return "binary" if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-") else "decimal"


def sums(place: Place, wants: Wants) -> Verdict | None:
    """A target that tells no shapes: a label on which all its nodes agree, and sums, are all there is."""
    for key, value in (wants.source.get("nodeSelector") or {}).items():
        if place.common_labels.get(key, value) != value:
            return Verdict("NoNode", f"no node has {key}={value}")
    if place.allocatable and not fits(wants.requests, place.allocatable):
        return Verdict("TooBig", "the pod requests more than the whole target has")
    return None
