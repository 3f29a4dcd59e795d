"""Bounds that administrators set: limits of a Target for all our pods there, ResourceQuotas of its namespaces.

Rules of quotas: Kubernetes' pod evaluator and its quota admission (pkg/quota/v1/evaluator/core/pods.go).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agent.model.quantity import Quantity
from agent.scheduling.resources import OBLIGATORY, ONE
from agent.scheduling.snapshot import Amounts, Quota, Scope, Wants
from agent.scheduling.verdict import Verdict

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def over_limit(limits: Amounts, held: Amounts, wants: Wants) -> Verdict | None:
    """Whether the pod goes beyond what pods of ours may request together."""
    for name, limit in limits.items():
        wanted = wants.requests.get(name, 0)
        used = held.get(name, 0)
        if wanted and used + wanted > limit:
            told = f"{_written(name, used)} of {_written(name, limit)}"
            return Verdict("LimitReached", f"limit {name} of the target reached ({told})")
    return None


def over_quota(quotas: Iterable[Quota], coming: Iterable[Wants], wants: Wants) -> Verdict | None:
    """Whether quota admission in the target would refuse the pod.

    :param coming: pods of ours of the namespace that the quotas' figures do not have yet
    """
    for quota in quotas:
        if not in_scope(quota.scopes, wants):
            continue
        lacking = _lacking(quota, wants)
        if lacking:
            message = f"quota {quota.name} demands that every container has {', '.join(lacking)}"
            return Verdict("QuotaDemands", message)
        usage = quota_usage(wants)
        exceeded = [
            f"{name} ({_written(name, used)} of {_written(name, quota.hard[name])})"
            for name, used in _used(quota, usage, coming).items()
            if used + usage[name] > quota.hard[name]
        ]
        if exceeded:
            return Verdict("QuotaExceeded", f"exceeded quota {quota.name}: {', '.join(sorted(exceeded))}")
    return None


def _used(quota: Quota, usage: Amounts, coming: Iterable[Wants]) -> dict[str, int]:
    """Of what the pod would take. A resource of which nothing is told is not counted yet: admission would wait."""
    used = {name: quota.used[name] for name in usage if name in quota.hard and name in quota.used}
    for other in coming:
        if in_scope(quota.scopes, other):
            for name, amount in quota_usage(other).items():
                if name in used:
                    used[name] += amount
    return used


def quota_usage(wants: Wants) -> Amounts:
    """What a quota counts for a pod."""
    known: Amounts | None = wants.__dict__.get("_usage")
    if known is None:
        known = wants.__dict__["_usage"] = _usage(wants)
    return known


def _usage(wants: Wants) -> dict[str, int]:
    usage = {"count/pods": ONE, "pods": ONE}
    for name, amount in wants.requests.items():
        if name == "pods":
            continue
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
        usage[f"requests.{name}"] = amount
    usage |= {f"limits.{name}": amount for name, amount in wants.limits.items() if name in _COMPUTE}
    return usage


def in_scope(scopes: Iterable[Scope], wants: Wants) -> bool:
    """Whether a quota with these scopes is about the pod."""
    return all(_matches(scope, wants) for scope in scopes)


def _matches(scope: Scope, wants: Wants) -> bool:
    match scope.name:
        case "Terminating":
            return wants.terminating
        case "NotTerminating":
            return not wants.terminating
        case "BestEffort":
            return wants.best_effort
        case "NotBestEffort":
            return not wants.best_effort
        case "PriorityClass":
            return _has_class(scope, wants.priority_class)
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(wants)
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


def _crosses_namespaces(wants: Wants) -> bool:
    affinity: Mapping[str, Any] = wants.source.get("affinity") or {}
    return any(
        term.get("namespaces") or term.get("namespaceSelector") is not None
        for kind in ("podAffinity", "podAntiAffinity")
        for items in (affinity.get(kind) or {}).values()
        for item in items
        for term in (item.get("podAffinityTerm", item),)
    )


def _lacking(quota: Quota, wants: Wants) -> list[str]:
    demanded = {
        name if "." in name else f"requests.{name}"
        for name in quota.hard
        if name.removeprefix("requests.").removeprefix("limits.") in OBLIGATORY
    }
    return sorted(demanded - wants.told)


def _written(name: str, amount: int) -> str:
    binary = any(part in name for part in ("memory", "storage", "hugepages-"))
    return str(Quantity(amount, "binary" if binary else "decimal"))
