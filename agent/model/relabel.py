"""How labels, and what selects by them, are rewritten on their way to a target (wire contract, 4.1).

`app` and `foo.com/app` become `multicluster.admiralty.io/app`, so that controllers of the target do not adopt
delegates. Labels in whose `key=value` the pod's no-prefix regexp is found keep their key.

Two labels may end in the same key. Then the same one wins every time: one that keeps its key before one that was
rewritten, a key without a slash before one with, else the first in alphabetical order.
"""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.model.pattern import LabelPattern

Labels = Mapping[str, str]
Regexp = LabelPattern | str | None
"""Expression of the labels that keep their key; a LabelPattern where several calls are about one object."""


def new_key(key: str, value: str, regexp: Regexp) -> str:
    """The key under which a label arrives in the target.

    :raises InvalidPattern: if the regexp is none, or too much for the object's labels
    """
    return key if _pattern(regexp).matches(key, value) else _prefixed(key)


def relabel(labels: Labels | None, regexp: Regexp = None) -> dict[str, str]:
    """Labels (or a selector of a Service) as they are in the target.

    :raises InvalidPattern: if the regexp is none, or too much for the object's labels
    """
    pattern = _pattern(regexp)
    result: dict[str, str] = {}
    moved: dict[str, str] = {}
    for key, value in sorted((labels or {}).items(), key=lambda item: ("/" in item[0], item[0])):
        if pattern.matches(key, value):
            result[key] = value
        else:
            moved.setdefault(_prefixed(key), value)
    return {**moved, **result}


def constraints(spec: dict[str, Any], labels: Labels, regexp: Regexp) -> dict[str, Any]:
    """Affinity and spread of a delegate, so that they select other delegates as they selected other pods.

    Only the fields that need a change are in the result. `labels` are those of the pod itself, before rewriting.

    :raises InvalidPattern: if the regexp is none, or too much for the object's labels
    """
    pattern = _pattern(regexp)
    result: dict[str, Any] = {}
    affinity = spec.get("affinity")
    if affinity:
        kinds = {kind: _pod_affinity(affinity[kind], labels, pattern) for kind in _POD_KINDS if affinity.get(kind)}
        if kinds:
            result["affinity"] = {**affinity, **kinds}
    spread = spec.get("topologySpreadConstraints")
    if spread:
        result["topologySpreadConstraints"] = [_term(item, labels, pattern) for item in spread]
    return result


def selector(selector: dict[str, Any], regexp: Regexp) -> dict[str, Any]:
    """A LabelSelector as it is in the target.

    A requirement keeps its key when the regexp is found for any of its values (without values, in `key=`).

    :raises InvalidPattern: if the regexp is none, or too much for the object's labels
    """
    pattern = _pattern(regexp)
    result = dict(selector)
    if selector.get("matchLabels"):
        result["matchLabels"] = relabel(selector["matchLabels"], pattern)
    if selector.get("matchExpressions"):
        result["matchExpressions"] = [_requirement(item, pattern) for item in selector["matchExpressions"]]
    return result


def _pattern(regexp: Regexp) -> LabelPattern:
    return regexp if isinstance(regexp, LabelPattern) else LabelPattern(regexp)


def _prefixed(key: str) -> str:
    return names.PREFIX + key.rpartition("/")[2]


_POD_KINDS = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _requirement(item: dict[str, Any], pattern: LabelPattern) -> dict[str, Any]:
    key = item["key"]
    keeps = any(pattern.matches(key, value) for value in item.get("values") or ("",))
    return item if keeps else {**item, "key": _prefixed(key)}


def _pod_affinity(affinity: dict[str, Any], labels: Labels, pattern: LabelPattern) -> dict[str, Any]:
    result = dict(affinity)
    if affinity.get(_REQUIRED):
        result[_REQUIRED] = [_term(term, labels, pattern) for term in affinity[_REQUIRED]]
    if affinity.get(_PREFERRED):
        result[_PREFERRED] = [
            {**weighted, "podAffinityTerm": _term(weighted["podAffinityTerm"], labels, pattern)}
            for weighted in affinity[_PREFERRED]
        ]
    return result


def _term(term: dict[str, Any], labels: Labels, pattern: LabelPattern) -> dict[str, Any]:
    """A pod affinity term or a spread constraint: both have a labelSelector and keys taken from the pod itself."""
    result = dict(term)
    if term.get("labelSelector"):
        result["labelSelector"] = selector(term["labelSelector"], pattern)
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(field):
            result[field] = list(dict.fromkeys(new_key(key, labels.get(key, ""), pattern) for key in term[field]))
    return result
