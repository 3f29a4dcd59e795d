"""NetworkPolicies as a network plugin evaluates them for ingress, by labels. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from agent.moves.mover.facts import is_labelled

Raw = dict[str, Any]
Labels = Mapping[str, str]


class Workload(NamedTuple):
    """Labels of a pod, and of the namespace that it is in."""

    namespace: str
    labels: Labels
    namespace_labels: Labels = MappingProxyType({})


def selecting(policies: Iterable[Raw], pod: Workload) -> list[Raw]:
    """Return the policies that select a pod and restrict its ingress."""
    return [
        policy
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace
        and "Ingress" in policy["spec"]["policyTypes"]
        and is_labelled(policy["spec"].get("podSelector") or {}, pod.labels)
    ]


def lets_in(policies: Iterable[Raw], pod: Workload, caller: Workload, port: int) -> bool:
    """Return whether a pod may be called by another one. A pod that no policy selects may be called by all.

    Raises ValueError for rules about addresses or names of ports, which labels do not decide.
    """
    found = selecting(policies, pod)
    rules = [(pod.namespace, rule) for policy in found for rule in policy["spec"].get("ingress") or ()]
    return not found or any(
        _includes(rule.get("ports"), port) and _admits(rule.get("from"), namespace, caller) for namespace, rule in rules
    )


def _includes(ports: list[Raw] | None, port: int) -> bool:
    if not ports:
        return True
    if not all(isinstance(each.get("port"), int) for each in ports):
        raise ValueError(f"a port has no number: {ports}")
    found = [each for each in ports if each.get("protocol", "TCP") == "TCP"]
    return any(each["port"] <= port <= each.get("endPort", each["port"]) for each in found)


def _admits(peers: list[Raw] | None, namespace: str, caller: Workload) -> bool:
    return not peers or any(_is(peer, namespace, caller) for peer in peers)


def _is(peer: Raw, namespace: str, caller: Workload) -> bool:
    if "ipBlock" in peer:
        raise ValueError(f"a rule is about addresses: {peer}")
    if "namespaceSelector" not in peer:
        in_scope = caller.namespace == namespace
    else:
        in_scope = is_labelled(peer["namespaceSelector"], caller.namespace_labels)
    return in_scope and is_labelled(peer.get("podSelector") or {}, caller.labels)
