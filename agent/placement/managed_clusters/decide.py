"""Content of a ManagedCluster that the agent creates, by the Targets of its cluster. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import Status, find_condition, set_condition, timestamp
from agent.api.kinds import MANAGED_CLUSTERS
from agent.api.labels import is_among
from agent.api.names import lifecycle, ocm
from agent.base.clock import parse
from agent.clusters.health.record import State
from agent.model import clusterclaims
from agent.model.diff import merge_patch

Raw = dict[str, Any]

JOINED = "ManagedClusterJoined"
ACCEPTED = "HubAcceptedManagedCluster"
NAMESPACE_TAKEN = "NamespaceTaken"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_LOST = (ocm.TAINT_UNREACHABLE, "NoSelect")
_CONNECTING = timedelta(seconds=60)
"""Time after a restart of the agent in which a connecting Target does not change the status of its cluster."""

_NOT_TAKEN = frozenset(
    (
        # Argo CD and Flux treat an object with such a label as their own, and prune it.
        "app.kubernetes.io/instance",
        "argocd.argoproj.io",
        "toolkit.fluxcd.io",
    )
)
"""Keys and domains of labels that are not copied from Targets to a ManagedCluster."""


class Lead(msgspec.Struct, frozen=True):
    """A Target of the cluster; the namespace of a ClusterTarget is empty."""

    namespace: str
    labels: Mapping[str, str]
    conditions: Sequence[Mapping[str, Any]]
    cordoned: bool
    """True if its virtual node is cordoned or the Target is being deleted."""
    leaving: bool = False
    """True if the Target is retiring, or a user has declared that no pod of it runs."""
    version: str = ""
    """Version of the cluster's API server by its virtual node; empty if unknown."""
    lost: bool = False
    """True if its pods are being replaced in other targets, or a user has requested immediate failover."""
    failover_after: float = math.inf
    """Seconds without an answer until the target is lost; infinite for never."""


@dataclass(frozen=True)
class View:
    """A cluster with Targets, and its ManagedCluster."""

    name: str
    uid: str
    """UID of the cluster; empty if the cluster reports none."""
    leads: Sequence[Lead]
    summary: Mapping[str, Any] | None
    """Its ClusterSummary; None while it is unknown, and the status keeps the last values."""
    current: Raw | None
    """The existing ManagedCluster; None if there is none."""
    now: datetime
    foreign_namespace: bool = False
    """True if the namespace of the same name is not marked for this cluster."""
    is_self: bool = False
    silent_for: float | None = None
    """Seconds without an answer; None if the cluster answers, even with a refusal, or if that is unknown."""


@dataclass(frozen=True)
class Create:
    """Creation of the ManagedCluster."""

    manifest: Raw


class Patch(msgspec.Struct, frozen=True):
    """Merge patch of the ManagedCluster, or of its subresource `sub`."""

    body: Raw
    sub: str | None = None


@dataclass(frozen=True)
class Available:
    """Condition that reports whether the cluster can get new pods."""

    status: Status
    reason: str
    message: str


def decide(view: View) -> Create | Patch | None:
    """Return the next write, guarded by the resourceVersion; None if nothing differs."""
    found = available(view.leads)
    if found.status == "Unknown" and settles_in(view):
        found = _told(view.current) or found
    if view.current is None:
        empty = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.name, "metadata": {}}
        return Create(_wanted(view, {**empty, "spec": {}}, found))
    metadata = view.current["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    guard = {"resourceVersion": metadata["resourceVersion"]}
    body = merge_patch(view.current, _wanted(view, view.current, found))
    if body:
        return Patch({**body, "metadata": {**body.get("metadata", {}), **guard}})
    old = view.current.get("status") or {}
    status = merge_patch(old, _status(view, old, found))
    return Patch({"metadata": guard, "status": status}, sub="status") if status else None


def available(leads: Iterable[Lead]) -> Available:
    """Return the best condition that any Target of the cluster reports."""
    best = Available("Unknown", "NotConnected", "no Target that leads there is connected")
    for lead in leads:
        ready = find_condition(lead.conditions, "Ready")
        if ready is None:
            continue
        if ready["status"] == "True":
            return Available("True", "ManagedClusterAvailable", "Managed cluster is available")
        agent = find_condition(lead.conditions, "AgentReady") or {}
        if agent.get("status") == "False" or ready.get("reason") == "NotInstalled":
            best = Available("False", ready.get("reason") or "AgentNotReady", ready.get("message") or "")
        elif best.status == "Unknown":
            best = Available("Unknown", ready.get("reason") or "Unreachable", ready.get("message") or "")
    return best


def settles_in(view: View) -> float:
    """Return the seconds for which the last status stays, as a Target has just begun to connect; 0 for none."""
    longest = 0.0
    for lead in view.leads:
        ready = find_condition(lead.conditions, "Ready")
        if ready is not None and ready.get("reason") == State.CONNECTING:
            left = parse(ready["lastTransitionTime"]) + _CONNECTING - view.now
            longest = max(longest, left.total_seconds())
    return longest


def is_lost(view: View) -> bool:
    """Return True if decisions drop an unknown cluster. A lost cluster stays lost until its state is known again.

    Before that decisions keep it: the fault may be the source's, short, or one of the agent's credentials.
    """
    taints = ((view.current or {}).get("spec") or {}).get("taints") or ()
    was_lost = any((taint.get("key"), taint.get("effect")) == _LOST for taint in taints)
    seconds = -math.inf if view.silent_for is None else view.silent_for
    return was_lost or all(lead.lost or seconds >= lead.failover_after for lead in view.leads)


def _told(current: Raw | None) -> Available | None:
    conditions = ((current or {}).get("status") or {}).get("conditions")
    told = find_condition(conditions, ocm.CONDITION_AVAILABLE)
    return Available(told["status"], told["reason"], told["message"]) if told is not None else None


def _wanted(view: View, current: Raw, found: Available) -> Raw:
    """Return the ManagedCluster with the agent's labels, annotations and taints; other fields stay unchanged."""
    metadata, spec = current["metadata"], current.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    own = _labels_of(view)
    before = _applied(annotations.get(names.ANNOTATION_APPLIED_LABELS))
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in before or key in own}
    labels |= own | {ocm.OURS: "true"} | ({ocm.LOCAL_CLUSTER: "true"} if view.is_self else {})
    labels.setdefault(ocm.LABEL_CLUSTER_SET, ocm.DEFAULT_SET)
    notes = {names.ANNOTATION_APPLIED_LABELS: msgspec.json.encode(sorted(own)).decode()}
    if view.uid:
        notes[names.ANNOTATION_CLUSTER_UID] = view.uid
    taints = _taints(view, spec.get("taints") or [], found)
    others = {key: value for key, value in spec.items() if key != "taints"}
    return {
        **current,
        "metadata": {**metadata, "name": view.name, "labels": labels, "annotations": {**annotations, **notes}},
        "spec": {**others, "hubAcceptsClient": True, **({"taints": taints} if taints else {})},
    }


def _labels_of(view: View) -> dict[str, str]:
    """Return the labels of the Targets; of ClusterTargets only if there are any, as fewer users may write those.

    A Target in a namespace cannot add its cluster to a set: joining a set needs a separate right.
    """
    cluster_wide = [lead for lead in view.leads if not lead.namespace]
    found: dict[str, str] = {}
    for lead in cluster_wide or view.leads:
        for key, value in lead.labels.items():
            ours = names.is_ours(key) or key == ocm.LOCAL_CLUSTER or is_among(key, _NOT_TAKEN)
            if not ours and (cluster_wide or key != ocm.LABEL_CLUSTER_SET):
                found.setdefault(key, value)
    return found


def _applied(annotation: str | None) -> frozenset[str]:
    try:
        return msgspec.json.decode(annotation or "[]", type=frozenset[str])
    except msgspec.DecodeError:
        # A user edited the annotation: any label may be the user's.
        return frozenset()


def _taints(view: View, current: Sequence[Raw], found: Available) -> list[Raw]:
    """Return all taints: foreign ones stay. Taints without `timeAdded` get one, as tolerations count from it."""
    cordoned = bool(view.leads) and all(lead.cordoned for lead in view.leads)
    unknown, lost = found.status == "Unknown", is_lost(view)
    ours = (
        (ocm.TAINT_UNAVAILABLE, "NoSelect", found.status == "False"),
        (*_LOST, unknown and lost),
        (ocm.TAINT_UNREACHABLE, "NoSelectIfNew", unknown and not lost),
        (UNSCHEDULABLE, "NoSelectIfNew", cordoned),
        (lifecycle.TAINT_RETIRING, "NoSelect", bool(view.leads) and all(lead.leaving for lead in view.leads)),
    )
    now = timestamp(view.now)
    taints = [taint if taint.get("timeAdded") else {**taint, "timeAdded": now} for taint in current]
    # Toleration seconds count from the time at which the cluster became unknown.
    added = {taint.get("key"): taint["timeAdded"] for taint in taints if taint.get("key") == ocm.TAINT_UNREACHABLE}
    for key, effect, present in ours:
        there = [taint for taint in taints if (taint.get("key"), taint.get("effect")) == (key, effect)]
        if present and not there:
            taints.append({"key": key, "effect": effect, "timeAdded": added.get(key, now)})
        elif not present:
            taints = [taint for taint in taints if taint not in there]
    return taints


def _status(view: View, old: Raw, found: Available) -> Raw:
    status = dict(old)
    version = next((lead.version for lead in view.leads if lead.version), "")
    version = version or (old.get("version") or {}).get("kubernetes", "")
    if version:
        status["version"] = {"kubernetes": version}
    if view.summary is not None:
        told = (view.summary["metadata"].get("annotations") or {}).get(ocm.CLAIMS)
        status["clusterClaims"] = clusterclaims.listed(view.uid, version, clusterclaims.read(told)) or None
        status |= {name: dict(view.summary.get(name) or {}) or None for name in ("capacity", "allocatable")}
    elif view.uid and not old.get("clusterClaims"):
        status["clusterClaims"] = clusterclaims.listed(view.uid, version, {})
    conditions = old.get("conditions")
    for kind, status_, reason, message in (
        (ACCEPTED, "True", "HubClusterAdminAccepted", "Accepted by hub cluster admin"),
        (JOINED, "True", "ManagedClusterJoined", "Managed cluster joined"),
        (ocm.CONDITION_AVAILABLE, found.status, found.reason, found.message),
        *_namespace(view, conditions),
    ):
        conditions = set_condition(conditions, kind, status_, reason, message, view.now)  # type: ignore[arg-type]
    status["conditions"] = conditions
    return status


def _namespace(view: View, conditions: Sequence[Raw] | None) -> list[tuple[str, str, str, str]]:
    """Return the condition of the namespace; none if the namespace has always been the cluster's."""
    if view.foreign_namespace:
        message = (
            f"namespace {view.name} is not for this cluster: label it {ocm.LABEL_CLUSTER_NAME}={view.name} if it may"
            f" be, or annotate the Target {ocm.MANAGED_CLUSTER} with another name"
        )
        return [(NAMESPACE_TAKEN, "True", "NotOurs", message)]
    taken = find_condition(conditions, NAMESPACE_TAKEN) is not None
    return [(NAMESPACE_TAKEN, "False", "Ours", "the namespace is for this cluster")] if taken else []


def namespace(name: str) -> Raw:
    """Return the manifest of a ManagedCluster's namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {ocm.LABEL_CLUSTER_NAME: name}},
    }
