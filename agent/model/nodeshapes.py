"""What a ClusterSummary tells of single nodes and of delegates on them, written and read (ruling 11). Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from agent.api import names
from agent.model.free_capacity import UNTOUCHED, Left, Taken, collapse, few, left, resources, undominated
from agent.model.quantity import Format, Quantity
from agent.model.requests import Amounts

SHAPES_LIMIT = 64 * 1024
"""Bytes of the node-shapes annotation; a cluster whose shapes alone take more tells its sums only."""

HOSTNAME = "kubernetes.io/hostname"
_BINARY = ("memory", "ephemeral-storage", "hugepages-")

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class ToldFree(msgspec.Struct):
    """What nodes of one shape have left; amounts are quantities."""

    amounts: dict[str, str] = {}
    count: Count = 1
    """How many nodes have just this left."""
    ports: list[str] = []
    """Host ports in use, as `TCP/80`."""


class ToldShape(msgspec.Struct):
    """Nodes that are alike, without the labels on which all nodes agree."""

    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    unschedulable: bool = False
    allocatable: dict[str, str] = {}
    count: Count = 1
    free: list[ToldFree] | None = None
    """None where the target does not tell; of a large target only the best nodes are told."""

    @property
    def tells_all(self) -> bool:
        """Whether what is free is told of all such nodes."""
        return self.free is not None and sum(free.count for free in self.free) >= self.count


COUNTED = msgspec.json.Decoder(dict[str, Count])
NODE_SHAPES = msgspec.json.Decoder(list[ToldShape])


def with_common_labels(
    shapes: Sequence[ToldShape], common: Mapping[str, str]
) -> Iterator[tuple[ToldShape, dict[str, str]]]:
    """Shapes with all their labels: those that every node has are told once, beside the shapes (`KnownNodes.alike`)."""
    of_some = {key for shape in shapes for key in shape.labels}
    everywhere = {key: value for key, value in common.items() if key not in of_some}
    return ((shape, {**everywhere, **shape.labels}) for shape in shapes)


def read_shapes(annotations: Mapping[str, str] | None) -> list[ToldShape]:
    """The shapes that a summary with these annotations tells; none where it tells none, or nothing that can be read."""
    try:
        return NODE_SHAPES.decode((annotations or {}).get(names.ANNOTATION_NODE_SHAPES) or "[]")
    except (msgspec.DecodeError, RecursionError):
        return []


def read_counted(annotations: Mapping[str, str] | None, cluster_uid: str) -> int | None:
    """How many delegates of a cluster are in what the summary tells of free room; None where it does not say."""
    text = (annotations or {}).get(names.ANNOTATION_COUNTED)
    if text is None:
        return None
    try:
        return COUNTED.decode(text).get(cluster_uid, 0)
    except (msgspec.DecodeError, RecursionError):
        return None


class Alike(msgspec.Struct, frozen=True):
    """Nodes of one shape."""

    shape: dict[str, Any]
    names: tuple[str, ...]
    allocatable: Amounts


def write_shapes(nodes: Sequence[Alike], taken: Mapping[str, Taken] | None = None) -> str | None:
    """Compact ASCII JSON of the different shapes of nodes, how many there are of each and what they have free.

    Where that would be too long, less is told: of each shape only the free nodes that decide whether one pod fits, then
    a few of those, then nothing of what is free; None where it would be too long even so.
    """
    shapes = [{**one.shape, "count": len(one.names)} for one in nodes]
    for free in _free(nodes, taken) if taken is not None else ():
        told = encode([{**shape, "free": one} for shape, one in zip(shapes, free, strict=True)])
        if len(told) <= SHAPES_LIMIT:
            return told
    told = encode(shapes)
    return told if len(told) <= SHAPES_LIMIT else None


def write_counted(delegates: Mapping[str, int] | None) -> str:
    """How many delegates of each cluster, by its UID, are in what is told of free room."""
    return encode(dict(delegates or {}))


def labels_of(node: dict[str, Any]) -> dict[str, str]:
    """The labels of a node."""
    return node.get("metadata", {}).get("labels") or {}


def encode(value: Any) -> str:
    """JSON that is the same for what is the same."""
    return msgspec.json.encode(value, order="deterministic").decode()


def _free(nodes: Sequence[Alike], taken: Mapping[str, Taken]) -> Iterator[list[list[dict[str, Any]]]]:
    """What is free on the nodes of each shape, each time in fewer words."""
    orders = [resources(one.allocatable) for one in nodes]
    counts = [
        collapse(left(order, one.allocatable, taken.get(name, UNTOUCHED)) for name in one.names)
        for order, one in zip(orders, nodes, strict=True)
    ]
    chosen = [list(found) for found in counts]
    for choice in (list, undominated, few):
        chosen = [choice(found) for found in chosen]
        yield [entries(order, found, some) for order, found, some in zip(orders, counts, chosen, strict=True)]


def shape(node: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the shape of a node besides labels and amounts: its taints without their times, and a cordon."""
    spec = node.get("spec") or {}
    taints = [
        {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)} for taint in spec.get("taints") or ()
    ]
    return {
        "taints": sorted(taints, key=lambda taint: (taint.get("key", ""), taint.get("effect", ""))),
        "unschedulable": bool(spec.get("unschedulable")),
    }


def entries(order: Sequence[str], counts: Mapping[Left, int], chosen: Iterable[Left]) -> list[dict[str, Any]]:
    """What is told of those that are chosen."""
    return [_entry(order, one, counts[one]) for one in chosen]


def _entry(order: Sequence[str], one: Left, count: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "amounts": {
            name: str(Quantity(amount, _format(name)))
            for name, amount in zip(order, one.amounts, strict=True)
            if amount
        }
    }
    if count > 1:
        entry["count"] = count
    if one.ports:
        entry["ports"] = list(one.ports)
    return entry


def _format(name: str) -> Format:
    return "binary" if name.startswith(_BINARY) else "decimal"
