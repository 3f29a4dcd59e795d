"""Filters for limits of administrators: limits of a Target for all our pods there, ResourceQuotas of its namespaces.

The rules of quotas follow Kubernetes' pod evaluator and quota admission (pkg/quota/v1/evaluator/core/pods.go).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agent.model.requests import written
from agent.ranking.rejection import Rejection
from agent.ranking.resources import OBLIGATORY, ONE
from agent.ranking.snapshot import Amounts, PodTemplate, Quota, Scope, TargetInfo
from agent.ranking.usage import Usage

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def over_limits(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    """Reject pods that exceed the Target's limits for all our pods in it."""
    if not target.limits:
        return None
    return over_limit(target.limits, usage.requests, template)


def over_quotas(template: PodTemplate, target: TargetInfo, usage: Usage) -> Rejection | None:
    """Reject pods for which a ResourceQuota in the target is exhausted, or requires resources that the pod does not
    specify.
    """
    if not target.quotas:
        return None
    quotas = target.quotas.get(template.namespace)
    return over_quota(quotas, usage.undelegated_in(template.namespace), template) if quotas else None


def over_limit(limits: Amounts, held: Amounts, template: PodTemplate) -> Rejection | None:
    """Return a rejection if the pod exceeds what our pods may request together; None otherwise."""
    for name, limit in limits.items():
        wanted = template.requests.get(name, 0)
        used = held.get(name, 0)
        if wanted and used + wanted > limit:
            specified = f"{written(name, used)} of {written(name, limit)}"
            return Rejection("LimitReached", f"limit {name} of the target reached ({specified})")
    return None


def over_quota(
    quotas: Iterable[Quota], undelegated_in: Iterable[PodTemplate], template: PodTemplate
) -> Rejection | None:
    """Return a rejection if quota admission in the target would refuse the pod; None otherwise.

    :param undelegated_in: our pods of the namespace that the quotas' status does not include yet
    """
    for quota in quotas:
        if not in_scope(quota.scopes, template):
            continue
        lacking = _lacking(quota, template)
        if lacking:
            message = f"quota {quota.name} demands that every container has {', '.join(lacking)}"
            return Rejection("QuotaDemands", message)
        usage = quota_usage(template)
        exceeded = [
            f"{name} ({written(name, used)} of {written(name, quota.hard[name])})"
            for name, used in _used(quota, usage, undelegated_in).items()
            if used + usage[name] > quota.hard[name]
        ]
        if exceeded:
            return Rejection("QuotaExceeded", f"exceeded quota {quota.name}: {', '.join(sorted(exceeded))}")
    return None


def _used(quota: Quota, usage: Amounts, undelegated_in: Iterable[PodTemplate]) -> dict[str, int]:
    """Return the usage of the resources that the pod needs. Resources missing in the status are skipped: admission
    waits.
    """
    used = {name: quota.used[name] for name in usage if name in quota.hard and name in quota.used}
    for other in undelegated_in:
        if in_scope(quota.scopes, other):
            for name, amount in quota_usage(other).items():
                if name in used:
                    used[name] += amount
    return used


def quota_usage(template: PodTemplate) -> Amounts:
    """Return the amounts that a quota counts for a pod."""
    known: Amounts | None = template.__dict__.get("_usage")
    if known is None:
        known = template.__dict__["_usage"] = _usage(template)
    return known


def _usage(template: PodTemplate) -> dict[str, int]:
    usage = {"count/pods": ONE, "pods": ONE}
    for name, amount in template.requests.items():
        if name == "pods":
            continue
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
        usage[f"requests.{name}"] = amount
    usage |= {f"limits.{name}": amount for name, amount in template.limits.items() if name in _COMPUTE}
    return usage


def in_scope(scopes: Iterable[Scope], template: PodTemplate) -> bool:
    """Return True if a quota with these scopes counts the pod."""
    return all(_matches(scope, template) for scope in scopes)


def _matches(scope: Scope, template: PodTemplate) -> bool:
    match scope.name:
        case "Terminating":
            return template.terminating
        case "NotTerminating":
            return not template.terminating
        case "BestEffort":
            return template.best_effort
        case "NotBestEffort":
            return not template.best_effort
        case "PriorityClass":
            return _has_class(scope, template.priority_class)
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(template)
        case _:
            return False


def _has_class(scope: Scope, name: str) -> bool:
    match scope.operator:
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _crosses_namespaces(template: PodTemplate) -> bool:
    affinity: Mapping[str, Any] = template.source.get("affinity") or {}
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None
        for kind in ("podAffinity", "podAntiAffinity")
        for items in (affinity.get(kind) or {}).values()
        for item in items
        for term in (item.get("podAffinityTerm", item),)
    )


def _lacking(quota: Quota, template: PodTemplate) -> list[str]:
    demanded = {
        name if "." in name else f"requests.{name}"
        for name in quota.hard
        if name.removeprefix("requests.").removeprefix("limits.") in OBLIGATORY
    }
    return sorted(demanded - template.specified)
