"""Target info: the scheduler's view of one target, from its Target, virtual node, ClusterSummary and quotas."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from agent.api import names
from agent.api.labels import HOSTNAME
from agent.api.names.ocm import CLAIMS
from agent.clusters.health.agent_health import AgentRecord
from agent.clusters.target import Record
from agent.kube.errors import UNDECODABLE, Unreadable
from agent.kube.store import Object
from agent.model import clusterclaims
from agent.model.requests import limits_of
from agent.model.target_health import standing
from agent.ranking.snapshot import Amounts, Extra, Quota, Shape, TargetInfo, amounts
from agent.ranking.summary_shapes import told_shapes


class Health(Protocol):
    """Health of a target for a `TargetInfo`: from the agent's connection, or from the conditions of its Target."""

    @property
    def title(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def node_name(self) -> str: ...
    @property
    def ready(self) -> bool: ...
    @property
    def record(self) -> Record: ...
    @property
    def agent(self) -> AgentRecord | None: ...
    @property
    def slow(self) -> bool: ...


def target_info_of(
    target: Health,
    node: Object | None,
    summary: Object | None,
    obj: Object | None = None,
    *,
    quotas: Mapping[str, tuple[Quota, ...]] | None = None,
    extra: Mapping[str, Extra] | None = None,
) -> TargetInfo:
    """Return the scheduler's view of a target, from its virtual node, ClusterSummary and Target."""
    ready = target.ready and node is not None and (target.agent is None or target.agent.usable)
    spec: dict[str, Any] = {}
    if node is not None:
        spec = node.decode().get("spec") or {}
    told = summary.decode() if summary is not None else {}
    common = common_labels(summary)
    manifest = obj.decode() if obj is not None else {}
    limits, weight = limits_and_weight(manifest)
    return TargetInfo(
        title=target.title,
        node_name=target.node_name,
        namespace=target.namespace,
        ready=ready,
        state="" if ready else _why_not_ready(target, node),
        labels=_labels(target, node, common),
        taints=tuple(spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=amounts(told.get("allocatable")),
        shapes=shapes(summary, common),
        common_labels=common,
        limits=limits,
        quotas=quotas or {},
        weight=weight,
        extra=extra or {},
        slow=target.slow,
        managed_cluster=(manifest.get("status") or {}).get("managedCluster") or "",
        claims=claims(summary, told),
        closed=standing(manifest).closed,
    )


def _labels(target: Health, node: Object | None, common: Mapping[str, str]) -> Mapping[str, str]:
    """Labels that pods are placed by: those of the virtual node, and its host name if the target has one node."""
    if node is None:
        return {}
    return {HOSTNAME: target.node_name, **node.labels} if HOSTNAME in common else node.labels


def claims(summary: Object | None, told: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the cluster claims in a ClusterSummary, None without a summary."""
    return clusterclaims.read((told["metadata"].get("annotations") or {}).get(CLAIMS)) if summary is not None else None


def _why_not_ready(target: Health, node: Object | None) -> str:
    if target.ready and node is None:
        return "its virtual node does not exist yet"
    if target.ready and target.agent is not None:
        return target.agent.message
    return f"{target.record.message} (since {target.record.since.strftime('%H:%M')})"


def limits_and_weight(manifest: Mapping[str, Any]) -> tuple[Amounts, int]:
    """Return a Target's limits and weight, 0 for an unreadable weight: the webhook refuses such Targets."""
    text = names.annotation((manifest.get("metadata") or {}).get("annotations"), names.WEIGHT)
    try:
        weight = max(-100, min(100, int(text or "0")))
    except ValueError:
        weight = 0
    return limits_of(manifest), weight


def common_labels(summary: Object | None) -> dict[str, str]:
    """Return the labels common to all nodes. Cluster properties are labels of the virtual node only."""
    if summary is None:
        return {}
    try:
        text = summary.annotations.get(names.ANNOTATION_CLUSTER_PROPERTIES, "[]")
        properties = msgspec.json.decode(text, type=set[str])
    except (Unreadable, *UNDECODABLE):
        properties = set()
    return {key: value for key, value in summary.labels.items() if key not in properties}


def shapes(summary: Object | None, common: Mapping[str, str]) -> tuple[Shape, ...]:
    """Return the shapes with all their labels."""
    return told_shapes(summary.annotations, common) if summary is not None else ()
