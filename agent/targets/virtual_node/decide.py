"""Desired state of a virtual node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from agent.api import names
from agent.api.names import lifecycle, links
from agent.clusters.health.agent_health import AgentRecord
from agent.clusters.health.record import Record, State
from agent.clusters.stores.endpoints import Served
from agent.model import nodefeatures, pod_networks
from agent.model.diff import merge_patch
from agent.model.target_health import NOTHING_SAID, Standing
from agent.model.virtualnode import TAINT, InvalidPattern, amounts, desired_labels, node_status, virtual_node

if TYPE_CHECKING:
    from agent.api.conditions import Status

Raw = dict[str, Any]
Key = tuple[str, str]

SETTLE_SECONDS = 5.0
"""Seconds for which the node of a connecting target is left alone, so that an agent's restart changes no node."""

UNREACHABLE = {"key": names.TAINT_UNREACHABLE, "effect": "NoSchedule"}
AGENT = {"key": names.TAINT_AGENT, "effect": "NoSchedule"}
DRAINING = {"key": names.TAINT_DRAINING, "effect": "NoSchedule"}
RETIRING = {"key": lifecycle.TAINT_RETIRING, "effect": "NoSchedule"}
LOST = {"key": lifecycle.TAINT_LOST, "effect": "NoSchedule"}
RETURNING = {"key": lifecycle.TAINT_RETURNING, "effect": "NoSchedule"}


@dataclass(frozen=True)
class TargetAndNode:
    """A Target that exists, and its node."""

    key: Key
    node: Raw | None
    record: Record | None
    """State of the connection; None if the Target or its Secret is unusable."""
    agent: AgentRecord | None
    """State of the target's agent; None if not known yet."""
    draining: bool
    """Whether the Target is being deleted."""
    summary: Raw | None
    excluded: str | None
    address: str
    port: int | None
    """Port of the kubelet API; None if not known yet, which leaves the node's port unchanged."""
    version: str
    """Version of the target's API server; empty if not known."""
    now: datetime
    free: str = ""
    """Free capacity of the target as JSON; empty if not known."""
    served: Served | None = None
    """State of the node's kubelet API; None if not known."""
    several_huge_pages: bool = False
    """Whether a real node of the source has huge pages of more than one size."""
    declares_features: bool = False
    """Whether a real node of the source declares features, so that the API server keeps the field."""
    managed_cluster: str = ""
    """Name of the ManagedCluster in the status of the Target; empty if none."""
    standing: Standing = NOTHING_SAID
    """Whether the Target is retiring, lost or returning."""
    told: Mapping[str, str] | None = None
    """Annotations of its summary, even if the rest of that is invalid; None if not known."""


@dataclass(frozen=True)
class Create:
    """Create the node with its status."""

    manifest: Raw


class Patch(msgspec.Struct, frozen=True):
    """Change the node, or its status, by a merge patch."""

    body: Raw
    sub: str | None = None


Action = Create | Patch


def settles_in(record: Record | None, missing_since: datetime | None, now: datetime) -> float:
    """Return the seconds left of SETTLE_SECONDS for a connecting or unconnected target; 0 in any other state."""
    since = missing_since
    if record is not None:
        since = record.since if record.state is State.CONNECTING else None
    return max(0.0, SETTLE_SECONDS - (now - since).total_seconds()) if since is not None else 0.0


def decide(view: TargetAndNode) -> Action | None:
    """Return the next write to the node; None if the node has the desired state.

    One write at a time, since its new resourceVersion guards the next.
    """
    if view.node is None:
        if view.record is None:
            return None
        node = wanted(view, virtual_node(*view.key, view.managed_cluster))
        return Create({**node, "status": _status(view, {})})
    new = wanted(view, view.node)
    guard = {"resourceVersion": view.node["metadata"]["resourceVersion"]}
    body = merge_patch(view.node, new)
    if body:
        return Patch({**body, "metadata": {**body.get("metadata", {}), **guard}})
    old = view.node.get("status") or {}
    status = merge_patch(old, _status(view, old))
    return Patch({"metadata": guard, "status": status}, sub="status") if status else None


def wanted(view: TargetAndNode, node: Raw) -> Raw:
    """Return the node with the agent's labels and taints. Those of users, annotations and cordon are kept."""
    metadata = node["metadata"]
    annotations = metadata.get("annotations") or {}
    labels = desired_labels(
        virtual_node(*view.key, view.managed_cluster)["metadata"]["labels"],
        (view.summary or {}).get("metadata", {}).get("labels") if view.summary is not None else _applied(view, node),
        view.excluded,
        metadata.get("labels"),
        annotations.get(names.ANNOTATION_APPLIED_LABELS),
    )
    spec = node.get("spec") or {}
    return {
        **node,
        "metadata": {
            **metadata,
            "labels": labels.labels,
            "annotations": {
                **{key: value for key, value in annotations.items() if key != links.ANNOTATION_NETWORKS},
                names.ANNOTATION_APPLIED_LABELS: labels.applied,
                **_networks(view, annotations),
                **({names.ANNOTATION_FREE: view.free} if view.free else {}),
            },
        },
        "spec": {**spec, "taints": _taints(view, spec.get("taints") or [])},
    }


def _networks(view: TargetAndNode, annotations: Raw) -> dict[str, str]:
    """Return the annotation with the target's pod networks; the node's own value if the summary has no valid one."""
    told = view.told if view.told is not None and links.ANNOTATION_NETWORKS in view.told else None
    found = pod_networks.read(told)
    stands = told is None or found.flaw
    text = annotations.get(links.ANNOTATION_NETWORKS, "") if stands else pod_networks.write(found.pods)
    return {links.ANNOTATION_NETWORKS: text} if text else {}


def check_pattern(pattern: str | None, labels: Mapping[str, str] | None = None) -> str | None:
    """Return the flaw of a Target's excludedLabelsRegexp; None if it has none.

    :param labels: labels of the target's summary, which it is searched in
    """
    try:
        desired_labels({}, labels, pattern, {}, None)
    except InvalidPattern as error:
        return f"spec.excludedLabelsRegexp: {error}; no label is excluded"
    return None


def _applied(view: TargetAndNode, node: Raw) -> dict[str, str]:
    """Return the target's labels from the node, for use while its summary cannot be read."""
    metadata = node["metadata"]
    before = (metadata.get("annotations") or {}).get(names.ANNOTATION_APPLIED_LABELS, "")
    return {key: value for key, value in (metadata.get("labels") or {}).items() if f'"{key}"' in before}


def _taints(view: TargetAndNode, current: list[Raw]) -> list[Raw]:
    away = view.record is None or view.record.state is not State.READY
    ours = [(TAINT, True), (UNREACHABLE, away), (DRAINING, view.draining)]
    ours += [
        (RETIRING, view.standing.retiring),
        (LOST, view.standing.lost),
        (RETURNING, view.standing.returning),
    ]
    if view.agent is not None and not away:
        ours.append((AGENT, not view.agent.usable))
    taints = list(current)
    for taint, present in ours:
        found = [other for other in taints if _same_taint(other, taint)]
        if present and not found:
            taints.append(dict(taint))
        elif not present:
            taints = [other for other in taints if not _same_taint(other, taint)]
    return taints


def _same_taint(one: Raw, other: Raw) -> bool:
    return all(one.get(field, "") == other.get(field, "") for field in ("key", "value", "effect"))


def _status(view: TargetAndNode, current: Raw) -> Raw:
    reachable: Status = "True"
    if view.record is None:
        reachable, reason = "False", "NotConnected"
        message = f"{_title(view.key)} cannot be connected: its conditions say why"
    else:
        reason, message = view.record.state.value, view.record.message
        if view.record.state is not State.READY:
            reachable = "False"
    return node_status(
        current,
        resources=(
            amounts(view.summary, several_huge_pages=view.several_huge_pages) if view.summary is not None else None
        ),
        reachable=reachable,
        reason=reason,
        message=message,
        address=view.address,
        port=view.port,
        served=(view.served.well, view.served.reason, view.served.message) if view.served is not None else None,
        features=_features(view),
        version=view.version or (current.get("nodeInfo") or {}).get("kubeletVersion", ""),
        now=view.now,
    )


def _features(view: TargetAndNode) -> list[str] | None:
    """Return the features to declare; None to leave the field unchanged: unknown, or dropped by the API server."""
    if view.summary is None or not view.declares_features:
        return None
    return nodefeatures.read((view.summary.get("metadata") or {}).get("annotations"))


def _title(key: Key) -> str:
    return f"Target {key[0]}/{key[1]}" if key[0] else f"ClusterTarget {key[1]}"
