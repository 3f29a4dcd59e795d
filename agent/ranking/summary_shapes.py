"""Shapes of nodes, as reported by a ClusterSummary. Pure."""

from collections.abc import Mapping

from agent.model.nodeshapes import ToldShape, read_shapes, with_common_labels
from agent.model.quantity import InvalidQuantity
from agent.model.requests import amounts
from agent.ranking.snapshot import Free, Shape


def told_shapes(annotations: Mapping[str, str], common: Mapping[str, str]) -> tuple[Shape, ...]:
    """Return the shapes in the annotations of a summary, with all their labels; empty if unreadable."""
    try:
        return tuple(_shape(shape, labels) for shape, labels in with_common_labels(read_shapes(annotations), common))
    except InvalidQuantity:
        return ()


def _shape(told: ToldShape, labels: dict[str, str]) -> Shape:
    free = None
    if told.free is not None:
        free = tuple(Free(amounts(left.amounts), left.count, frozenset(left.ports)) for left in told.free)
    return Shape(labels, told.taints, told.unschedulable, amounts(told.allocatable), told.count, free)
