"""Predicates of a Placement: labels, claims and CEL expressions that a cluster has to match."""

from collections.abc import Mapping, Sequence

from agent.ranking.placing.inputs import CelVerdicts, ManagedCluster
from agent.ranking.placing.spec import Predicate
from agent.ranking.pod_terms import Selector


def refusal(predicates: Sequence[Predicate], cluster: ManagedCluster, cel: CelVerdicts) -> str:
    """Return why no predicate matches a cluster; empty if one does, or if there are none."""
    found = []
    for predicate in predicates:
        why = _refusal(predicate, cluster, cel)
        if not why:
            return ""
        found.append(why)
    return "; ".join(dict.fromkeys(found))


def takes(predicate: Predicate, cluster: ManagedCluster) -> bool:
    """Return True if a cluster matches labels and claims. CEL expressions are ignored: decision groups have none."""
    return predicate.labels.matches(cluster.labels) and predicate.claims.matches(cluster.claims)


def _refusal(predicate: Predicate, cluster: ManagedCluster, cel: CelVerdicts) -> str:
    why = _missed(predicate.labels, cluster.labels, "label") or _missed(predicate.claims, cluster.claims, "claim")
    if why:
        return why
    for expression in predicate.cel:
        if (expression, cluster.name) not in cel.matches:
            return f"CEL expression {expression} is not true"
    return ""


def _missed(selector: Selector, values: Mapping[str, str], noun: str) -> str:
    for requirement in selector.requirements:
        if not requirement.holds(values):
            value = values.get(requirement.key)
            has = "missing" if value is None else value if value else '""'
            wanted = f" [{', '.join(requirement.values)}]" if requirement.values else ""
            return f"{noun} {requirement.key} is {has}, wanted {requirement.operator}{wanted}"
    return ""
