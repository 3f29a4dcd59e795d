"""Decides changes of the ClusterSummary, and which changes of a node affect it. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api import labels, names
from agent.api.names import givingup, links, nodes
from agent.api.names.ocm import CLAIMS, USED
from agent.model.diff import merge_patch

Raw = dict[str, Any]


class _Spec(msgspec.Struct):
    taints: msgspec.Raw = msgspec.Raw()
    unschedulable: bool = False
    podCIDR: msgspec.Raw = msgspec.Raw()
    podCIDRs: msgspec.Raw = msgspec.Raw()


class _Status(msgspec.Struct):
    capacity: msgspec.Raw = msgspec.Raw()
    allocatable: msgspec.Raw = msgspec.Raw()
    declaredFeatures: msgspec.Raw = msgspec.Raw()


class _Metadata(msgspec.Struct):
    labels: msgspec.Raw = msgspec.Raw()


class _Node(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_OURS = (
    names.ANNOTATION_NODE_SHAPES,
    names.ANNOTATION_COUNTED,
    names.ANNOTATION_CLUSTER_PROPERTIES,
    nodes.ANNOTATION_DECLARED_FEATURES,
    names.ANNOTATION_AGENT_VERSION,
    givingup.ANNOTATION_AGENT_ANSWERS,
    names.ANNOTATION_CLUSTER_UID,
    links.ANNOTATION_NETWORKS,
    CLAIMS,
    USED,
)

_decoder = msgspec.json.Decoder(_Node)


def substance(node: bytes) -> tuple[bytes | bool, ...]:
    """Return the parts of a node that the summary depends on; heartbeats and images are not among them."""
    seen = _decoder.decode(node)
    return (
        bytes(seen.metadata.labels),
        seen.spec.unschedulable,
        bytes(seen.spec.taints),
        bytes(seen.spec.podCIDR),
        bytes(seen.spec.podCIDRs),
        bytes(seen.status.capacity),
        bytes(seen.status.allocatable),
        bytes(seen.status.declaredFeatures),
    )


def decide(wanted: Raw, current: Raw | None, *, gateway: bool = False) -> Raw | None:
    """Return the summary to create if it does not exist, else a merge patch for it; None for no change.

    Labels are payload, so all unwanted ones are removed. Annotations of users and other controllers are kept.

    :param gateway: whether another controller writes the annotation for gateways
    """
    if current is None:
        return wanted
    body = merge_patch(
        {field: current.get(field) for field in ("capacity", "allocatable")},
        {field: wanted[field] for field in ("capacity", "allocatable")},
    )
    metadata = current["metadata"]
    relabelled = merge_patch(metadata.get("labels") or {}, wanted["metadata"]["labels"])
    ours = _OURS if gateway else (*_OURS, links.ANNOTATION_GATEWAY)
    found = {key: value for key, value in (metadata.get("annotations") or {}).items() if key in ours}
    annotations = merge_patch(found, wanted["metadata"]["annotations"])
    changed = {name: patch for name, patch in (("labels", relabelled), ("annotations", annotations)) if patch}
    if changed:
        body["metadata"] = changed
    return body or None


def properties(told: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge properties of a cluster, the last value of a key wins. Properties that cannot be labels are left out."""
    return {
        key: value
        for source in told
        for key, value in source.items()
        if labels.is_key(key) and labels.is_value(value) and not names.is_ours(key) and key != names.PROVIDER_KEY
    }
