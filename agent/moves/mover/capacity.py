"""Capacity of targets for pods that would be evicted, from virtual nodes and ClusterSummaries. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agent.api import names
from agent.model.quantity import InvalidQuantity
from agent.model.requests import Amounts, amounts
from agent.moves.mover.whole_groups import Member
from agent.ranking.explain import listed, without_live_figures
from agent.ranking.filters import not_selected
from agent.ranking.matching import intolerable
from agent.ranking.node_fit import NodeFit
from agent.ranking.quota import over_limit
from agent.ranking.snapshot import PodTemplate, TargetInfo

Raw = Mapping[str, Any]

_NONE: Amounts = {}
_MOST_KINDS = 64


def room(wanted: PodTemplate | None, packings: Sequence["Packing"]) -> str:
    """Return why none of these targets has capacity for a pod; empty if one seems to have.

    :param wanted: requests and constraints of the pod; None if unreadable, which fits every target
    """
    if not packings:
        return "there is no other target that it may go to"
    reasons = []
    kind = _kind(wanted) if wanted is not None else b""
    for packing in packings:
        why = packing.known_refusal(wanted, kind) if wanted is not None else ""
        if not why:
            return ""
        reasons.append((packing.name, why))
    return listed(reasons)


def _kind(wanted: PodTemplate) -> bytes:
    """Return a key that is equal for pods that the same targets refuse for the same reasons."""
    source = [wanted.source.get(key) for key in ("nodeSelector", "affinity", "tolerations")]
    return msgspec.json.encode([wanted.proxy, source, sorted(wanted.requests.items()), sorted(wanted.ports)])


def _free(node: Raw) -> Amounts | None:
    """Return the total free capacity of a target; None if its virtual node has no readable annotation for it."""
    text = (node["metadata"].get("annotations") or {}).get(names.ANNOTATION_FREE)
    if not text:
        return None
    try:
        return amounts(msgspec.json.decode(text, type=dict[str, str]))
    except (msgspec.DecodeError, InvalidQuantity):
        return None


class Packing:
    """Simulated free capacity of one target, which decreases with each pod that `take` puts into it."""

    def __init__(self, node: Raw, nodes: NodeFit | None, limits: Amounts = _NONE, held: Amounts = _NONE) -> None:
        """:param nodes: free capacity of its nodes; None if it does not publish that

        :param limits: most that all pods of this source may request in the target, from the Target
        :param held: their present requests
        """
        self._limits, self._held = limits, Counter(held)
        self.name: str = node["metadata"]["name"]
        spec = node.get("spec") or {}
        self._node = TargetInfo(
            title=self.name,
            node_name=self.name,
            namespace="",
            ready=True,
            state="",
            labels=node["metadata"].get("labels") or {},
            taints=tuple(spec.get("taints") or ()),
            unschedulable=bool(spec.get("unschedulable")),
            allocatable={},
            shapes=(),
        )
        self._free = _free(node)
        self._nodes = nodes
        self._is_fresh = True
        self._refusals: dict[bytes, str] = {}
        """Refusals by `_kind` of pods, without limits; valid until a pod is put into the target."""

    def copy(self, limits: Amounts = _NONE, held: Amounts = _NONE) -> "Packing":
        """Return a copy for other limits. Both share known refusals until a pod is put into one of them."""
        found = Packing.__new__(Packing)
        # Runs once for each of up to a thousand targets: takes a fifth of the time of copy.copy.
        found.__dict__.update(self.__dict__, _limits=limits, _held=Counter(held) if held else Counter())
        return found

    def known_refusal(self, wanted: PodTemplate, kind: bytes) -> str:
        """Return `refusal`, cached by kind until a pod is put into the target."""
        if not self._is_fresh:
            return self.refusal(wanted)
        if rejection := over_limit(self._limits, self._held, wanted):
            return without_live_figures(rejection.message)
        why = self._refusals.get(kind)
        if why is None:
            if len(self._refusals) >= _MOST_KINDS:
                self._refusals.clear()
            why = self._refusals[kind] = self.refusal(wanted)
        return why

    def closed(self, wanted: PodTemplate | None) -> str:
        """Return why the virtual node rejects such a pod whatever its capacity is; empty if it does not."""
        if self._node.unschedulable:
            return "cordoned"
        if wanted is None:
            return ""
        taint = intolerable(self._node.taints, wanted.proxy.get("tolerations") or ())
        if taint is not None:
            return f"taint {taint['key']}"
        return "no match of its node selector or affinity" if not_selected(wanted, self._node) else ""

    def refusal(self, wanted: PodTemplate) -> str:
        """Return why one more pod does not fit, without figures of free capacity; empty if it fits."""
        if closed := self.closed(wanted):
            return closed
        if rejection := over_limit(self._limits, self._held, wanted):
            return without_live_figures(rejection.message)
        left = self._free
        if left is not None:
            short = sorted(name for name, amount in wanted.requests.items() if amount > left.get(name, 0))
            if short:
                return f"not enough {', '.join(short)}"
        # A large target does not publish every node: if one node fits, the totals decide.
        rejection = self._nodes.reject(wanted) if self._nodes is not None else None
        return without_live_figures(rejection.message) if rejection is not None else ""

    def take(self, wanted: PodTemplate) -> bool:
        """Put one more pod into the target. Return False if it does not fit."""
        if self.refusal(wanted):
            return False
        if self._is_fresh and self._nodes is not None:
            self._nodes = NodeFit(self._nodes.target)
        self._is_fresh = False
        self._held.update(wanted.requests)
        if self._nodes is not None:
            self._nodes.take(wanted)
        if self._free is not None:
            self._free = {name: amount - wanted.requests.get(name, 0) for name, amount in self._free.items()}
        return True


def room_for_all(members: Sequence[Member], packings: Iterable[Packing], *, one: bool) -> str:
    """Return why the admitted targets lack capacity for all pods of a group at once; empty if they seem to have it.

    A well-placed member needs no further capacity in its own target.

    :param one: whether all members have to be in the same target
    """
    living = [member for member in members if member.lives]
    found = sorted(packings, key=lambda packing: packing.name)
    if not found:
        return "there is no other target that all of its group may go to"
    if not one:
        going = [member for member in living if member.cause]
        left = [member for member in _largest_first(going) if not any(_put(member, each) for each in found)]
        return _lacking(living, len(going) - len(left), len(going), found) if left else ""
    most = 0
    for packing in found:
        going = [member for member in living if member.node != packing.name or member.cause]
        taken = sum(_put(member, packing) for member in _largest_first(going))
        if taken == len(going):
            return ""
        most = max(most, taken)
    return _lacking(living, most, len(living), found)


def _put(member: Member, packing: Packing) -> bool:
    return packing.name in member.targets and (member.wanted is None or packing.take(member.wanted))


def _largest_first(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: _size(member.wanted), reverse=True)


def _size(wanted: PodTemplate | None) -> tuple[int, int]:
    return (wanted.requests.get("cpu", 0), wanted.requests.get("memory", 0)) if wanted is not None else (0, 0)


def _lacking(living: Sequence[Member], taken: int, going: int, found: Sequence[Packing]) -> str:
    wanted = living[0].wanted if living else None
    closed = [(packing.name, why) for packing in found if (why := packing.closed(wanted))]
    where = f" ({listed(closed)})" if closed else ""
    return f"there is room for {taken} of the {going} pods of its group that have to go at once{where}"
