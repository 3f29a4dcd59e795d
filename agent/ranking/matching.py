"""Node selectors, affinity terms, taints and tolerations, as in kube-scheduler."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Term = Mapping[str, Any]


def selects(selector: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """Return True if the labels contain every pair of a nodeSelector."""
    return all(labels.get(key) == value for key, value in (selector or {}).items())


def required_terms(affinity: Mapping[str, Any] | None) -> Sequence[Term] | None:
    """Return the node selector terms that a pod's affinity requires; None if it requires nothing."""
    required = ((affinity or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return required.get("nodeSelectorTerms") or () if required else None


def preferred_weight(affinity: Mapping[str, Any] | None, labels: Mapping[str, str], name: str) -> int:
    """Return the sum of the weights of the preferred node affinity terms that match."""
    preferred = ((affinity or {}).get("nodeAffinity") or {}).get("preferredDuringSchedulingIgnoredDuringExecution")
    return sum(
        int(item.get("weight") or 0)
        for item in preferred or ()
        if term_matches(item.get("preference") or {}, labels, name)
    )


def any_term_matches(terms: Iterable[Term], labels: Mapping[str, str], name: str) -> bool:
    """Return True if any term matches; an empty term matches nothing."""
    return any(term_matches(term, labels, name) for term in terms)


def term_matches(term: Term, labels: Mapping[str, str], name: str) -> bool:
    """Return True if all expressions and fields of a term match."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_expression(item, labels) for item in expressions) and all(
        _expression(item, {"metadata.name": name}) for item in fields
    )


def _expression(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(item["key"])
    values = item.get("values") or ()
    match item["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        left, right = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def intolerable(
    taints: Iterable[Mapping[str, str]], tolerations: Sequence[Mapping[str, Any]]
) -> Mapping[str, str] | None:
    """Return the first untolerated taint; None if all are tolerated. PreferNoSchedule does not count."""
    for taint in taints:
        if taint.get("effect") == "PreferNoSchedule":
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """Return True if a toleration covers a taint: an empty key or effect means any, the default operator is Equal.

    Gt and Lt compare the taint's number with the toleration's (KEP-5471).
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator")
    if operator == "Exists":
        return True
    if operator in ("Gt", "Lt"):
        return _compares(operator, taint.get("value"), (toleration.get("value") or "",))
    if operator not in (None, "", "Equal"):
        return False
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
