"""What ClusterSummaries of targets say, as the scheduler's types."""

from collections.abc import Mapping

import msgspec

from agent.api import names
from agent.kube.errors import UNDECODABLE, Unreadable
from agent.kube.store import Object
from agent.model.nodeshapes import ToldShape, node_shapes
from agent.model.quantity import InvalidQuantity
from agent.scheduling.snapshot import Free, Shape, amounts


def common_labels(summary: Object | None) -> dict[str, str]:
    """Those of nodes: properties of the cluster are labels of its virtual node only, and no node has them."""
    if summary is None:
        return {}
    try:
        text = summary.annotations.get(names.ANNOTATION_CLUSTER_PROPERTIES, "[]")
        properties = msgspec.json.decode(text, type=set[str])
    except (Unreadable, *UNDECODABLE):
        properties = set()
    return {key: value for key, value in summary.labels.items() if key not in properties}


def shapes(summary: Object | None, common: Mapping[str, str]) -> tuple[Shape, ...]:
    """Shapes with all their labels: a summary tells labels that every node has once, those of some nodes per shape."""
    told = node_shapes(summary.annotations) if summary is not None else []
    of_some = {key for shape in told for key in shape.labels}
    everywhere = {key: value for key, value in common.items() if key not in of_some}
    try:
        return tuple(_shape(shape, everywhere) for shape in told)
    except InvalidQuantity:
        return ()


def _shape(told: ToldShape, everywhere: Mapping[str, str]) -> Shape:
    free = None
    if told.free is not None:
        free = tuple(Free(amounts(left.amounts), left.count, frozenset(left.ports)) for left in told.free)
    labels = {**everywhere, **told.labels}
    return Shape(labels, told.taints, told.unschedulable, amounts(told.allocatable), told.count, free)
