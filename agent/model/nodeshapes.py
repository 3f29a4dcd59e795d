"""Shapes of nodes and counts of delegates in a ClusterSummary, written and read (ruling 11). Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from agent.api import names
from agent.model.free_capacity import UNTOUCHED, Left, Taken, collapse, few, left, resources, undominated
from agent.model.quantity import Format, Quantity
from agent.model.requests import Amounts

SHAPES_LIMIT = 64 * 1024
"""Maximum size of the node-shapes annotation in bytes. A cluster beyond it publishes only its sums."""

HOSTNAME = "kubernetes.io/hostname"
_BINARY = ("memory", "ephemeral-storage", "hugepages-")

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class ToldFree(msgspec.Struct):
    """Free capacity of nodes of one shape; amounts are quantities."""

    amounts: dict[str, str] = {}
    count: Count = 1
    """Number of nodes with exactly this free capacity."""
    ports: list[str] = []
    """Host ports in use, as `TCP/80`."""


class ToldShape(msgspec.Struct):
    """Nodes of one shape, without the labels that are the same on all nodes."""

    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    unschedulable: bool = False
    allocatable: dict[str, str] = {}
    count: Count = 1
    free: list[ToldFree] | None = None
    """Free capacity; None if the target does not publish it. A large target publishes only its best nodes."""

    @property
    def tells_all(self) -> bool:
        """Whether free capacity is published for all nodes of this shape."""
        return self.free is not None and sum(free.count for free in self.free) >= self.count


COUNTED = msgspec.json.Decoder(dict[str, Count])
NODE_SHAPES = msgspec.json.Decoder(list[ToldShape])


def with_common_labels(
    shapes: Sequence[ToldShape], common: Mapping[str, str]
) -> Iterator[tuple[ToldShape, dict[str, str]]]:
    """Return shapes with all their labels: labels that every node has are published once, apart from shapes."""
    of_some = {key for shape in shapes for key in shape.labels}
    everywhere = {key: value for key, value in common.items() if key not in of_some}
    return ((shape, {**everywhere, **shape.labels}) for shape in shapes)


def read_shapes(annotations: Mapping[str, str] | None) -> list[ToldShape]:
    """Return the shapes in a summary's annotations; empty if there are none or they cannot be parsed."""
    try:
        return NODE_SHAPES.decode((annotations or {}).get(names.ANNOTATION_NODE_SHAPES) or "[]")
    except (msgspec.DecodeError, RecursionError):
        return []


def read_counted(annotations: Mapping[str, str] | None, cluster_uid: str) -> int | None:
    """Return the number of a cluster's delegates in the summary's free capacity; None if it is not published."""
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
    """Return compact ASCII JSON of the shapes of nodes, with the number of nodes and the free capacity of each.

    If the text is too long, first keep only free nodes that decide whether one pod fits. Then keep a few of
    those, then omit free capacity. Return None if even that is too long.
    """
    shapes = [{**one.shape, "count": len(one.names)} for one in nodes]
    for free in _free(nodes, taken) if taken is not None else ():
        told = encode([{**shape, "free": one} for shape, one in zip(shapes, free, strict=True)])
        if len(told) <= SHAPES_LIMIT:
            return told
    told = encode(shapes)
    return told if len(told) <= SHAPES_LIMIT else None


def write_counted(delegates: Mapping[str, int] | None) -> str:
    """Return JSON of the number of delegates that the free capacity includes, by UID of their source cluster."""
    return encode(dict(delegates or {}))


def labels_of(node: dict[str, Any]) -> dict[str, str]:
    """Return the labels of a node."""
    return node.get("metadata", {}).get("labels") or {}


def encode(value: Any) -> str:
    """Return deterministic JSON: equal values have equal texts."""
    return msgspec.json.encode(value, order="deterministic").decode()


def _free(nodes: Sequence[Alike], taken: Mapping[str, Taken]) -> Iterator[list[list[dict[str, Any]]]]:
    """Yield the free capacity of nodes of each shape, each time with fewer entries."""
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
    """Return a node's taints (without their times) and cordon, the parts of its shape besides labels and amounts."""
    spec = node.get("spec") or {}
    taints = [
        {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)} for taint in spec.get("taints") or ()
    ]
    return {
        "taints": sorted(taints, key=lambda taint: (taint.get("key", ""), taint.get("effect", ""))),
        "unschedulable": bool(spec.get("unschedulable")),
    }


def entries(order: Sequence[str], counts: Mapping[Left, int], chosen: Iterable[Left]) -> list[dict[str, Any]]:
    """Return the published entries of the chosen nodes' free capacity."""
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
