"""Whether targets have room for pods, by what virtual nodes and summaries tell: asked before any is evicted. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agent.api import names
from agent.controllers.mover.together import Member
from agent.model.quantity import InvalidQuantity
from agent.model.requests import Amounts, amounts, requests
from agent.scheduling.node_fit import NodeFit, fits
from agent.scheduling.snapshot import PodTemplate

Raw = Mapping[str, Any]

_EFFECTS = ("NoSchedule", "NoExecute")
NOTHING: Mapping[str, Amounts] = {}


def room(pod: Raw, nodes: Iterable[Raw], uncounted: Mapping[str, Amounts] = NOTHING) -> str:
    """Why none of these virtual nodes has room for a pod like this one, empty if one has, as far as is known.

    What their target has left is compared all in all: whether a single node there takes it, its scheduler finds out.

    :param uncounted: by virtual node, what pods ask for that are new there and may not be counted yet
    """
    try:
        wanted = requests(pod.get("spec") or {})
    except InvalidQuantity:
        return ""
    reasons = [_refusal(wanted, node, uncounted.get(node["metadata"]["name"], {})) for node in nodes]
    if not reasons:
        return "there is no other target that it may go to"
    return "" if "" in reasons else "; ".join(sorted(filter(None, reasons)))


def _refusal(wanted: Amounts, node: Raw, uncounted: Amounts) -> str:
    closed = _closed(node)
    if closed:
        return closed
    left = _free(node)
    if left is None:
        return ""
    short = sorted(name for name, amount in wanted.items() if amount > left.get(name, 0) - uncounted.get(name, 0))
    return f"{node['metadata']['name']} has not enough {', '.join(short)}" if short else ""


def _closed(node: Raw) -> str:
    """Why nothing new goes to a virtual node, empty if something may."""
    name, spec = node["metadata"]["name"], node.get("spec") or {}
    if spec.get("unschedulable"):
        return f"{name} is cordoned"
    taints = (taint for taint in spec.get("taints") or () if taint.get("effect") in _EFFECTS)
    closed = next((taint["key"] for taint in taints if taint["key"] != names.PROVIDER_KEY), "")
    return f"{name} has the taint {closed}" if closed else ""


def _free(node: Raw) -> Amounts | None:
    """What a target has left all in all, None where it does not tell."""
    text = (node["metadata"].get("annotations") or {}).get(names.ANNOTATION_FREE)
    if not text:
        return None
    try:
        return amounts(msgspec.json.decode(text, type=dict[str, str]))
    except (msgspec.DecodeError, InvalidQuantity):
        return None


class Packing:
    """What one target has left while pods are put into it one after the other, as far as it tells."""

    def __init__(self, node: Raw, nodes: NodeFit | None) -> None:
        """:param nodes: its own nodes, None where it does not tell of them"""
        self.name: str = node["metadata"]["name"]
        self.closed = _closed(node)
        self._free = _free(node)
        self._nodes = nodes

    def take(self, wanted: PodTemplate) -> bool:
        """Put one more pod into it; False where there is no room."""
        if self.closed or (self._free is not None and not fits(wanted.requests, self._free)):
            return False
        # Of a large target not every node is known: as long as one fits, the sums count.
        if self._nodes is not None and not self._nodes.take(wanted) and not self._nodes.fits(wanted):
            return False
        if self._free is not None:
            self._free = {name: amount - wanted.requests.get(name, 0) for name, amount in self._free.items()}
        return True


def room_for_all(members: Sequence[Member], packings: Iterable[Packing], *, one: bool) -> str:
    """Why there is not room for all of these at once where they may go, empty if there is, as far as is known.

    Who is where he may stay takes the room that he has now.

    :param one: whether all have to be in the same target
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
    closed = [packing.closed for packing in found if packing.closed]
    where = f" ({'; '.join(closed)})" if closed else ""
    return f"there is room for {taken} of the {going} pods of its group that have to go at once{where}"
