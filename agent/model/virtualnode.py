"""Virtual nodes, which represent targets in the source cluster (wire contract, 2.3, 8.3 and 8.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import Status, set_condition
from agent.api.labels import LABELS_NOT_TAKEN, is_among, is_value
from agent.api.names.ocm import MANAGED_CLUSTER
from agent.model.nodefeatures import FIELD
from agent.model.nodeshapes import read_shapes
from agent.model.pattern import LENGTH_LIMIT, WORK_LIMIT, InvalidPattern, LabelPattern
from agent.model.quantity import InvalidQuantity, Quantity

__all__ = [
    "KUBELET_SERVING",
    "TARGET_REACHABLE",
    "InvalidPattern",
    "Labels",
    "amounts",
    "desired_labels",
    "free",
    "has_several_huge_pages",
    "identity",
    "node_status",
    "virtual_node",
]

TARGET_REACHABLE = "TargetReachable"
"""Node condition: whether the target's API server answers. Ready stays true during short outages."""

KUBELET_SERVING = "KubeletServing"
"""Node condition: whether the kubelet API (logs, exec and others) is served with a certificate from a signer."""

READY_REASON = "VirtualNodeReady"
READY_MESSAGE = f"the agent stands in for this node's kubelet; {TARGET_REACHABLE} says whether the target answers"

_HUGE_PAGES = "hugepages-"
PODS = "pods"
"""Resource: maximum number of pods on a node."""

TAINT = {"key": names.PROVIDER_KEY, "value": names.PROVIDER_VALUE, "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels for a virtual node, and the annotation that records them."""

    labels: dict[str, str]
    applied: str
    """Value of the annotation `multicluster/applied-labels`: JSON list of the keys that the agent set."""


def virtual_node(target_namespace: str, target_name: str, managed_cluster: str = "") -> dict[str, Any]:
    """Return the Node of a Target, or of a ClusterTarget if the namespace is empty, without its summary.

    The label for the ManagedCluster is omitted if its name is not a valid label value.
    """
    managed = {MANAGED_CLUSTER: managed_cluster} if managed_cluster and is_value(managed_cluster) else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": names.virtual_node(target_namespace, target_name),
            "labels": {
                "type": "virtual-kubelet",
                names.PROVIDER_KEY: names.PROVIDER_VALUE,
                "kubernetes.io/role": "cluster",
                "alpha.service-controller.kubernetes.io/exclude-balancer": "true",
                "node.kubernetes.io/exclude-from-external-load-balancers": "true",
                **identity(target_namespace, target_name),
                **managed,
            },
        },
        "spec": {"taints": [dict(TAINT)]},
    }


def identity(target_namespace: str, target_name: str) -> dict[str, str]:
    """Return the labels that identify a virtual node; no other node has them."""
    if target_namespace:
        return {names.LABEL_TARGET_NAMESPACE: target_namespace, names.LABEL_TARGET_NAME: target_name}
    return {names.LABEL_CLUSTER_TARGET_NAME: target_name}


def desired_labels(
    base: Mapping[str, str],
    summary_labels: Mapping[str, str] | None,
    excluded_regexp: str | None,
    current_labels: Mapping[str, str] | None,
    last_applied: str | None,
) -> Labels:
    """Return all labels of a virtual node: the agent's (base labels, then the target's) and the users'.

    A label of the target overrides a base label, as in Admiralty, except for identifying labels; some labels
    are never copied. A label that the agent never applied belongs to a user and survives, even if the target
    has another value for it.

    :param excluded_regexp: of the Target; labels of the summary whose `key=value` matches it are omitted
    :param last_applied: annotation `multicluster/applied-labels` of the node, None if it has none
    :raises InvalidPattern: if the regexp is invalid
    """
    excluded = excluded_labels(excluded_regexp)
    common = {
        key: value
        for key, value in (summary_labels or {}).items()
        if not _identifies(key) and not is_among(key, LABELS_NOT_TAKEN) and not excluded.matches(key, value)
    }
    ours = {**base, **common}
    current = current_labels or {}
    before = _applied(last_applied)
    if before is None:
        users = {key: value for key, value in current.items() if key not in ours}
    else:
        identity = {key for key in base if _identifies(key)}
        users = {key: value for key, value in current.items() if key not in before and key not in identity}
        ours = {key: value for key, value in ours.items() if key not in users}
    applied = msgspec.json.encode(sorted(ours)).decode()
    return Labels({**users, **ours}, applied)


def excluded_labels(regexp: str | None) -> LabelPattern:
    """Return the pattern of a Target's `excludedLabelsRegexp`. Its limits are higher, for long lists of labels.

    :raises InvalidPattern: if it is not a regular expression, or too long
    """
    return LabelPattern(regexp, length=4 * LENGTH_LIMIT, work=4 * WORK_LIMIT)


def has_several_huge_pages(capacity: Mapping[str, Any] | None) -> bool:
    """Return whether a node, or a cluster, has huge pages of more than one size."""
    return len(_huge_pages(capacity)) > 1


def free(summary: Mapping[str, Any]) -> str:
    """Return JSON of all nodes' free capacity, by resource; empty if the summary lacks it for some nodes."""
    shapes = read_shapes(summary["metadata"].get("annotations"))
    if not all(shape.tells_all for shape in shapes):
        return ""
    total: dict[str, Quantity] = {}
    try:
        for shape in shapes:
            for left in shape.free or ():
                for resource, amount in left.amounts.items():
                    one = Quantity.of(amount)
                    total[resource] = total.get(resource, Quantity(0)) + Quantity(one.nano * left.count, one.format)
    except InvalidQuantity:
        return ""
    told = {resource: str(amount) for resource, amount in total.items()}
    return msgspec.json.encode(told, order="deterministic").decode() if shapes else ""


def amounts(summary: Mapping[str, Any], *, several_huge_pages: bool) -> dict[str, dict[str, Any]]:
    """Return capacity and allocatable of a virtual node (wire contract, 8.3).

    `allocatable.pods` is 0, so that no other scheduler of the cluster binds pods that tolerate every taint;
    they would not run. The proxy scheduler uses the ClusterSummary, and the API server does not check capacity
    in a binding.

    Huge pages of several sizes are omitted unless another node of the cluster has several sizes, too. API
    servers and schedulers without such a node may reject them.
    """
    found = {field: dict(summary.get(field) or {}) for field in ("capacity", "allocatable")}
    if found["allocatable"]:
        found["allocatable"][PODS] = "0"
    if several_huge_pages or not any(has_several_huge_pages(each) for each in found.values()):
        return found
    return {
        field: {resource: amount for resource, amount in each.items() if resource not in _huge_pages(each)}
        for field, each in found.items()
    }


def is_closed(node: Mapping[str, Any]) -> bool:
    """Return whether schedulers of the local cluster find no capacity on a virtual node."""
    return str(((node.get("status") or {}).get("allocatable") or {}).get(PODS, "0")) == "0"


def _huge_pages(resources: Mapping[str, Any] | None) -> set[str]:
    return {
        resource
        for resource, amount in (resources or {}).items()
        if resource.startswith(_HUGE_PAGES) and Quantity.of(amount).nano
    }


def node_status(
    current: Mapping[str, Any] | None,
    *,
    resources: Mapping[str, Any] | None,
    reachable: Status,
    reason: str,
    message: str,
    address: str,
    port: int | None,
    version: str,
    now: datetime,
    served: tuple[bool, str, str] | None = None,
    features: list[str] | None = None,
) -> dict[str, Any]:
    """Return the whole status of a virtual node. It is Ready while an agent maintains it, whatever its target's state.

    :param current: present status: source of other writers' conditions and of transition times
    :param resources: `amounts`; None while the target's ClusterSummary is not cached: then they stay unchanged
    :param reachable: with `reason` and `message`, of the condition TargetReachable
    :param address: of the kubelet API of this node for the API server, with `port`; may be empty
    :param port: None leaves it unchanged
    :param served: status, reason and message of the condition KubeletServing; None leaves it unchanged
    :param version: the kubelet version that `kubectl get nodes` shows
    :param features: features that all nodes of the target declare; None leaves them unchanged
    """
    status = {**(current or {}), **(resources or {}), **({FIELD: features} if features is not None else {})}
    conditions = set_condition(status.get("conditions"), "Ready", "True", READY_REASON, READY_MESSAGE, now)
    conditions = set_condition(conditions, TARGET_REACHABLE, reachable, reason, message, now)
    if served is not None:
        well, why, text = served
        conditions = set_condition(conditions, KUBELET_SERVING, "True" if well else "False", why, text, now)
    if (allocatable := status.get("allocatable")) and "pods" in allocatable:
        status["allocatable"] = {**allocatable, "pods": "0"}  # An earlier version let schedulers find capacity.
    status["conditions"] = conditions
    status["addresses"] = [{"type": "InternalIP", "address": address}] if address else []
    if port is not None:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    status["nodeInfo"] = {**(status.get("nodeInfo") or {}), "kubeletVersion": version}
    # API servers omit empty fields: writing them would differ from the stored status forever.
    return {field: value for field, value in status.items() if value}


def _identifies(key: str) -> bool:
    return key == names.PROVIDER_KEY or names.is_ours(key)


def _applied(annotation: str | None) -> frozenset[str] | None:
    if annotation is None:
        return None
    try:
        return msgspec.json.decode(annotation, type=frozenset[str])
    except msgspec.DecodeError:
        # A user has edited it: treat the node like one that has not been seen before.
        return None
