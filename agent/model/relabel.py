"""How labels, and what selects by them, are rewritten on their way to a target (wire contract, 4.1).

`app` and `foo.com/app` become `multicluster.admiralty.io/app`, so that controllers of the target do not adopt
delegates. Labels in whose `key=value` the pod's no-prefix regexp is found keep their key.

Two labels may end in the same key. Then the same one wins every time: one that keeps its key before one that was
rewritten, a key without a slash before one with, else the first in alphabetical order.
"""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.model.pattern import matches

Labels = Mapping[str, str]


def new_key(key: str, value: str, regexp: str | None) -> str:
    """The key under which a label arrives in the target.

    :raises InvalidPattern: if the regexp is none
    """
    return key if matches(regexp, key, value) else names.PREFIX + key.rpartition("/")[2]


def relabel(labels: Labels | None, regexp: str | None = None) -> dict[str, str]:
    """Labels (or a selector of a Service) as they are in the target.

    :raises InvalidPattern: if the regexp is none
    """
    result: dict[str, str] = {}
    moved: dict[str, str] = {}
    for key, value in sorted((labels or {}).items(), key=lambda item: ("/" in item[0], item[0])):
        new = new_key(key, value, regexp)
        if new == key and matches(regexp, key, value):
            result[key] = value
        else:
            moved.setdefault(new, value)
    return {**moved, **result}


def constraints(spec: dict[str, Any], labels: Labels, regexp: str | None) -> dict[str, Any]:
    """Affinity and spread of a delegate, so that they select other delegates as they selected other pods.

    Only the fields that need a change are in the result. `labels` are those of the pod itself, before rewriting.
    """
    result: dict[str, Any] = {}
    affinity = spec.get("affinity")
    if affinity:
        kinds = {kind: _pod_affinity(affinity[kind], labels, regexp) for kind in _POD_KINDS if affinity.get(kind)}
        if kinds:
            result["affinity"] = {**affinity, **kinds}
    spread = spec.get("topologySpreadConstraints")
    if spread:
        result["topologySpreadConstraints"] = [_term(item, labels, regexp) for item in spread]
    return result


def selector(selector: dict[str, Any], regexp: str | None) -> dict[str, Any]:
    """A LabelSelector as it is in the target.

    A requirement keeps its key when the regexp is found for any of its values (without values, in `key=`).
    """
    result = dict(selector)
    if selector.get("matchLabels"):
        result["matchLabels"] = relabel(selector["matchLabels"], regexp)
    if selector.get("matchExpressions"):
        result["matchExpressions"] = [_requirement(item, regexp) for item in selector["matchExpressions"]]
    return result


_POD_KINDS = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _requirement(item: dict[str, Any], regexp: str | None) -> dict[str, Any]:
    key = item["key"]
    keeps = any(matches(regexp, key, value) for value in item.get("values") or ("",))
    return item if keeps else {**item, "key": new_key(key, "", None)}


def _pod_affinity(affinity: dict[str, Any], labels: Labels, regexp: str | None) -> dict[str, Any]:
    result = dict(affinity)
    if affinity.get(_REQUIRED):
        result[_REQUIRED] = [_term(term, labels, regexp) for term in affinity[_REQUIRED]]
    if affinity.get(_PREFERRED):
        result[_PREFERRED] = [
            {**weighted, "podAffinityTerm": _term(weighted["podAffinityTerm"], labels, regexp)}
            for weighted in affinity[_PREFERRED]
        ]
    return result


def _term(term: dict[str, Any], labels: Labels, regexp: str | None) -> dict[str, Any]:
    """A pod affinity term or a spread constraint: both have a labelSelector and keys taken from the pod itself."""
    result = dict(term)
    if term.get("labelSelector"):
        result["labelSelector"] = selector(term["labelSelector"], regexp)
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(field):
            result[field] = list(dict.fromkeys(new_key(key, labels.get(key, ""), regexp) for key in term[field]))
    return result
