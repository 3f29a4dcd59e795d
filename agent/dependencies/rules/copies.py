"""Copies of Roles, RoleBindings and NetworkPolicies for delegates in a target. Pure.

They apply only to objects of the source. Bindings keep only service accounts, since clusters have different
users. Policies select only delegates of this source.
"""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.kinds import NETWORK_POLICIES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from agent.api.names.links import ADMIT_GATEWAY
from agent.model.copies import Raw, copy_of
from agent.model.pattern import LabelPattern
from agent.model.relabel import selector as relabelled
from agent.model.sharedcopies import marked

_PEERS = (("ingress", "from"), ("egress", "to"))
GATEWAYS: Raw = {
    "namespaceSelector": {},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "flotilla", "app.kubernetes.io/component": "gateway"}},
}
"""Peer that selects the chart's gateway pods in any namespace."""


def role(original: Mapping[str, Any], cluster_name: str, cluster_uid: str) -> Raw:
    """Return the copy of a Role."""
    return _marked(copy_of(ROLES, original, cluster_name=cluster_name, cluster_uid=cluster_uid))


def binding(original: Mapping[str, Any], cluster_name: str, cluster_uid: str) -> Raw:
    """Return the copy of a RoleBinding; of its subjects, only service accounts of its own namespace are kept."""
    copy = copy_of(ROLE_BINDINGS, original, cluster_name=cluster_name, cluster_uid=cluster_uid)
    return _marked({**copy, "subjects": _accounts(original)})


def accounts(binding: Mapping[str, Any]) -> set[str]:
    """Return the service accounts of its own namespace that a RoleBinding names."""
    return {each["name"] for each in _accounts(binding)}


def role_of(binding: Mapping[str, Any]) -> str:
    """Return the Role that a RoleBinding refers to, empty for a ClusterRole, since every cluster has its own."""
    reference = binding.get("roleRef") or {}
    return str(reference.get("name", "")) if reference.get("kind") == ROLES.name else ""


def network_policy(original: Mapping[str, Any], cluster_name: str, cluster_uid: str, *, exact: bool = True) -> Raw:
    """Return the copy of a NetworkPolicy, with selectors rewritten to select delegates.

    Pods in its own namespace are delegates of this source. Pods in other namespaces may be other pods, such as
    the cluster's DNS. Such a peer is in the copy twice, unchanged and for delegates. With the annotation
    admit-gateway, rules that admit certain callers also admit the target's gateways.

    :param exact: whether every delegate in the target has exact labels
    :raises InvalidPattern: if its annotation no-prefix-label-regexp is invalid, or exceeds the work limit for its
        selectors
    """
    copy = copy_of(NETWORK_POLICIES, original, cluster_name=cluster_name, cluster_uid=cluster_uid)
    pattern = LabelPattern(names.annotation(original["metadata"].get("annotations"), names.NO_PREFIX_REGEXP))
    ours = {names.LABEL_PARENT_CLUSTER_UID: cluster_uid}

    def own(selector: Raw | None) -> Raw:
        found = relabelled(selector or {}, pattern, exact=exact)
        return {**found, "matchLabels": {**(found.get("matchLabels") or {}), **ours}}

    def peers(peer: Raw) -> list[Raw]:
        found = peer.get("podSelector")
        if found is None or (not found and "namespaceSelector" in peer):
            return [peer]
        if "namespaceSelector" not in peer:
            return [{**peer, "podSelector": own(found)}]
        there = own(found) if exact else relabelled(found, pattern)
        both = [{**peer, "podSelector": each} for each in (_no_delegates(found), there)]
        return both if both[0] != both[1] else both[:1]

    spec = {**original["spec"], "podSelector": own(original["spec"].get("podSelector"))}
    for field, side in _PEERS:
        if spec.get(field):
            spec[field] = [
                {**rule, side: [new for peer in rule[side] for new in peers(peer)]} if rule.get(side) else rule
                for rule in spec[field]
            ]
    if spec.get("ingress") and names.annotation(original["metadata"].get("annotations"), ADMIT_GATEWAY) == "true":
        spec["ingress"] = [_with_gateways(rule) for rule in spec["ingress"]]
    return _marked({**copy, "spec": spec})


def _no_delegates(selector: Raw) -> Raw:
    """Return a selector without delegates, whose rewritten labels a negation would match."""
    expressions = selector.get("matchExpressions") or []
    if all(each["operator"] in ("In", "Exists") for each in expressions):
        return selector
    return {**selector, "matchExpressions": [*expressions, {"key": names.LABEL_PARENT_UID, "operator": "DoesNotExist"}]}


def _with_gateways(rule: Raw) -> Raw:
    return {**rule, "from": [*rule["from"], GATEWAYS]} if rule.get("from") else rule


def _accounts(binding: Mapping[str, Any]) -> list[Raw]:
    namespace = binding["metadata"]["namespace"]
    return [
        each
        for each in binding.get("subjects") or ()
        if each.get("kind") == SERVICE_ACCOUNTS.name and each.get("namespace", namespace) == namespace
    ]


def _marked(copy: Raw) -> Raw:
    return marked(copy, {names.ANNOTATION_IS_DELEGATE: ""})
