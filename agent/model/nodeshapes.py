"""What a ClusterSummary tells of single nodes and of delegates on them (ruling 11). Pure."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from agent.api import names

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


def node_shapes(annotations: Mapping[str, str] | None) -> list[ToldShape]:
    """The shapes that a summary with these annotations tells; none where it tells none, or nothing that can be read."""
    try:
        return NODE_SHAPES.decode((annotations or {}).get(names.ANNOTATION_NODE_SHAPES) or "[]")
    except (msgspec.DecodeError, RecursionError):
        return []


def counted(annotations: Mapping[str, str] | None, cluster_uid: str) -> int | None:
    """How many delegates of a cluster are in what the summary tells of free room; None where it does not say."""
    text = (annotations or {}).get(names.ANNOTATION_COUNTED)
    if text is None:
        return None
    try:
        return COUNTED.decode(text).get(cluster_uid, 0)
    except (msgspec.DecodeError, RecursionError):
        return None
