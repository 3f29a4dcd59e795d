"""What a ManagedCluster that we make should look like, by the Targets that lead to its cluster. Pure."""

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
from agent.clusters.target import State
from agent.model import clusterclaims
from agent.model.diff import merge_patch

Raw = dict[str, Any]

JOINED = "ManagedClusterJoined"
ACCEPTED = "HubAcceptedManagedCluster"
NAMESPACE_TAKEN = "NamespaceTaken"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_LOST = (ocm.TAINT_UNREACHABLE, "NoSelect")
_CONNECTING = timedelta(seconds=60)
"""After a restart of the agent, a Target that is connecting says nothing of its cluster for so long."""

_NOT_TAKEN = frozenset(
    (
        # Argo CD and Flux take an object with such a label for one of theirs, and prune it.
        "app.kubernetes.io/instance",
        "argocd.argoproj.io",
        "toolkit.fluxcd.io",
    )
)
"""Keys and domains of labels that a ManagedCluster does not take from Targets."""


class Lead(msgspec.Struct, frozen=True):
    """A Target that leads to the cluster; ClusterTargets have an empty namespace."""

    namespace: str
    labels: Mapping[str, str]
    conditions: Sequence[Mapping[str, Any]]
    cordoned: bool
    """Its virtual node is, or it is being removed."""
    leaving: bool = False
    """It is to be emptied, or a person has certified that nothing of it runs any more."""
    version: str = ""
    """Of the cluster's API server, as its virtual node says."""
    lost: bool = False
    """Its pods are replaced elsewhere, or a person does not want to wait any longer."""
    failover_after: float = math.inf
    """Seconds without an answer after which it is lost; infinite for never."""


@dataclass(frozen=True)
class View:
    """A cluster that Targets lead to, and its ManagedCluster."""

    name: str
    uid: str
    """Of the cluster; empty where it tells none."""
    leads: Sequence[Lead]
    summary: Mapping[str, Any] | None
    """Its ClusterSummary; None while that is not known: then what was told of it stays."""
    current: Raw | None
    now: datetime
    foreign_namespace: bool = False
    """The namespace of its name is not one that is for it."""
    is_self: bool = False
    silent_for: float | None = None
    """Seconds for which it has given no answer; None if it answers, also with a refusal, or that is not known."""


@dataclass(frozen=True)
class Create:
    """Create the ManagedCluster."""

    manifest: Raw


class Patch(msgspec.Struct, frozen=True):
    """Change it, or its status, by a merge patch."""

    body: Raw
    sub: str | None = None


@dataclass(frozen=True)
class Available:
    """Whether new pods can go there."""

    status: Status
    reason: str
    message: str


def decide(view: View) -> Create | Patch | None:
    """The next write, None when all is as it should be; each is guarded by the version that it starts from."""
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
    """As the Target says that fares best."""
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
    """For how many seconds what is told already may stay, since a Target that was Ready is connecting; 0 for none."""
    longest = 0.0
    for lead in view.leads:
        ready = find_condition(lead.conditions, "Ready")
        if ready is not None and ready.get("reason") == State.CONNECTING:
            left = parse(ready["lastTransitionTime"]) + _CONNECTING - view.now
            longest = max(longest, left.total_seconds())
    return longest


def is_lost(view: View) -> bool:
    """Return True if no decision keeps a cluster that is unknown. One that was lost stays so until it is known again.

    Until then decisions that name it stay: the fault may be of the source, or short, or of the agent's credentials.
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
    """With our labels, annotations and taints; what others have written stays."""
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
    """Labels of the Targets; of ClusterTargets alone where there are any, which not everybody may write.

    Nor does a Target in a namespace put its cluster into a set: to join one takes a right of its own.
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
        # Somebody edited it: then every label may be theirs.
        return frozenset()


def _taints(view: View, current: Sequence[Raw], found: Available) -> list[Raw]:
    """Taints of others stay; a moment is added to those that have none, since tolerations count from it."""
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
    # Seconds of tolerations count from when it was unknown first.
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
    """There once the namespace was somebody else's."""
    if view.foreign_namespace:
        message = (
            f"namespace {view.name} is not for this cluster: label it {ocm.LABEL_CLUSTER_NAME}={view.name} if it may"
            f" be, or annotate the Target {ocm.MANAGED_CLUSTER} with another name"
        )
        return [(NAMESPACE_TAKEN, "True", "NotOurs", message)]
    taken = find_condition(conditions, NAMESPACE_TAKEN) is not None
    return [(NAMESPACE_TAKEN, "False", "Ours", "the namespace is for this cluster")] if taken else []


def namespace(name: str) -> Raw:
    """The namespace of a ManagedCluster."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {ocm.LABEL_CLUSTER_NAME: name}},
    }
