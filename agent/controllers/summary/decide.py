"""What of the ClusterSummary has to change, and which changes of a node matter to it. Pure."""

from typing import Any

import msgspec

from agent.api import names
from agent.model.diff import merge_patch
from agent.model.summary import summarise

Raw = dict[str, Any]


class _Spec(msgspec.Struct):
    taints: msgspec.Raw = msgspec.Raw()
    unschedulable: bool = False


class _Status(msgspec.Struct):
    capacity: msgspec.Raw = msgspec.Raw()
    allocatable: msgspec.Raw = msgspec.Raw()


class _Metadata(msgspec.Struct):
    labels: msgspec.Raw = msgspec.Raw()


class _Node(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Node)


def substance(node: bytes) -> tuple[bytes, bool, bytes, bytes, bytes]:
    """The parts of a node that the summary is made of; heartbeats and images are not among them."""
    seen = _decoder.decode(node)
    return (
        bytes(seen.metadata.labels),
        seen.spec.unschedulable,
        bytes(seen.spec.taints),
        bytes(seen.status.capacity),
        bytes(seen.status.allocatable),
    )


def decide(nodes: list[Raw], current: Raw | None) -> Raw | None:
    """The summary to create when there is none, else the merge patch to its present state; None for no change.

    Labels are payload, so all that the nodes do not share are removed. Annotations of others survive.
    """
    wanted = summarise(nodes)
    if current is None:
        return wanted
    body = merge_patch(
        {field: current.get(field) for field in ("capacity", "allocatable")},
        {field: wanted[field] for field in ("capacity", "allocatable")},
    )
    metadata = current["metadata"]
    labels = merge_patch(metadata.get("labels") or {}, wanted["metadata"]["labels"])
    shapes = (metadata.get("annotations") or {}).get(names.ANNOTATION_NODE_SHAPES)
    annotations = merge_patch(
        {names.ANNOTATION_NODE_SHAPES: shapes} if shapes is not None else {}, wanted["metadata"]["annotations"]
    )
    changed = {name: patch for name, patch in (("labels", labels), ("annotations", annotations)) if patch}
    if changed:
        body["metadata"] = changed
    return body or None
