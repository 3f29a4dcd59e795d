"""Shapes of nodes, as a ClusterSummary tells them. Pure."""

from collections.abc import Mapping

from agent.model.nodeshapes import ToldShape, read_shapes, with_common_labels
from agent.model.quantity import InvalidQuantity
from agent.model.requests import amounts
from agent.scheduling.snapshot import Free, Shape


def told_shapes(annotations: Mapping[str, str], common: Mapping[str, str]) -> tuple[Shape, ...]:
    """Those that a summary with these annotations tells, with all their labels; none where they cannot be read."""
    try:
        return tuple(_shape(shape, labels) for shape, labels in with_common_labels(read_shapes(annotations), common))
    except InvalidQuantity:
        return ()


def _shape(told: ToldShape, labels: dict[str, str]) -> Shape:
    free = None
    if told.free is not None:
        free = tuple(Free(amounts(left.amounts), left.count, frozenset(left.ports)) for left in told.free)
    return Shape(labels, told.taints, told.unschedulable, amounts(told.allocatable), told.count, free)
