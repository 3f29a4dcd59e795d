"""Copies of Roles, RoleBindings and NetworkPolicies for delegates in a target. Pure.

They are about what the source sends, and nobody else: bindings keep service accounts alone, since users of one cluster
are not those of another, and policies select no pods but delegates of this source.
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
"""As the chart labels them, in whichever namespace."""


def role(original: Mapping[str, Any], cluster_name: str, cluster_uid: str) -> Raw:
    """The copy of a Role."""
    return _marked(copy_of(ROLES, original, cluster_name=cluster_name, cluster_uid=cluster_uid))


def binding(original: Mapping[str, Any], cluster_name: str, cluster_uid: str) -> Raw:
    """The copy of a RoleBinding: of its subjects, the service accounts of its own namespace."""
    copy = copy_of(ROLE_BINDINGS, original, cluster_name=cluster_name, cluster_uid=cluster_uid)
    return _marked({**copy, "subjects": _accounts(original)})


def accounts(binding: Mapping[str, Any]) -> set[str]:
    """Service accounts of its own namespace that a RoleBinding names."""
    return {each["name"] for each in _accounts(binding)}


def role_of(binding: Mapping[str, Any]) -> str:
    """The Role that a RoleBinding refers to, empty for a ClusterRole: of that, every cluster has its own."""
    reference = binding.get("roleRef") or {}
    return str(reference.get("name", "")) if reference.get("kind") == ROLES.name else ""


def network_policy(original: Mapping[str, Any], cluster_name: str, cluster_uid: str, *, exact: bool = True) -> Raw:
    """The copy of a NetworkPolicy, whose selectors select delegates as they selected other pods.

    Pods of its own namespace are delegates of this source. Of other namespaces nobody knows (a cluster's DNS, say, is
    no delegate): such a peer is there twice, as it was and for delegates. Its annotation admit-gateway has rules that
    let some callers in let in gateways of the target, too.

    :param exact: every delegate in the target has exact labels
    :raises InvalidPattern: if its annotation no-prefix-label-regexp is none, or too much for so many selectors
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
    """Return a selector of pods that are no delegates: these have rewritten labels, which a negation would match."""
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
