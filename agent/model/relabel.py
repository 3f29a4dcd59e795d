"""Rewriting of labels and selectors for a target (wire contract, 4.1).

By the contract `app` and `foo.com/app` become `multicluster.admiralty.io/app`, so that controllers of the
target do not adopt delegates. Labels whose `key=value` matches the pod's no-prefix regexp keep their key. If
two labels get the same key, the precedence is fixed: an unchanged key before a rewritten one, then a key
without a slash, then the first in alphabetical order.

So delegates also have an *exact* label for each: `multicluster/foo.com_app`, `multicluster/U_app`. Exact keys
are unique, and users' labels under `multicluster/` are not copied. The agent's selectors use exact keys, and
select a delegate exactly if they selected its pod.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from agent.api import names
from agent.model.pattern import InvalidPattern, LabelPattern

Labels = Mapping[str, str]
Regexp = LabelPattern | str | None
"""Expression of the labels that keep their key; a LabelPattern if several calls are about one object."""


EXACT_LIMIT = 1000
"""Maximum number of exact labels of one pod: more than any useful pod has, and at most 140 KB."""


def new_key(key: str, value: str, regexp: Regexp) -> str:
    """Return the key of a label in the target.

    :raises InvalidPattern: if the regexp is invalid, or exceeds the work limit for the object's labels
    """
    return key if _pattern(regexp).matches(key, value) else _prefixed(key)


def relabel(labels: Labels | None, regexp: Regexp = None) -> dict[str, str]:
    """Return labels (or a Service's selector) as the target has them.

    :raises InvalidPattern: if the regexp is invalid, or exceeds the work limit for the object's labels
    """
    pattern = _pattern(regexp)
    result: dict[str, str] = {}
    moved: dict[str, str] = {}
    for key, value in sorted((labels or {}).items(), key=lambda item: _precedence(item[0])):
        if pattern.matches(key, value):
            result[key] = value
        else:
            moved.setdefault(_prefixed(key), value)
    return {**moved, **result}


def collisions(labels: Labels, regexp: Regexp = None) -> dict[str, list[str]]:
    """Return keys of labels that the contract gives the same key although their values differ, by that key.

    The label whose value the delegate has comes first. Empty if the regexp cannot be used.
    """
    found: dict[str, list[str]] = {}
    try:
        pattern = _pattern(regexp)
        for key in sorted(labels, key=_precedence):
            found.setdefault(new_key(key, labels[key], pattern), []).append(key)
    except InvalidPattern:
        return {}
    return {key: keys for key, keys in found.items() if len({labels[each] for each in keys}) > 1}


def _precedence(key: str) -> tuple[bool, str]:
    return "/" in key, key


def labels_there(labels: Labels, regexp: Regexp = None) -> dict[str, str]:
    """Return all labels of a delegate that represent its pod's: the contract's and the exact ones.

    :raises InvalidPattern: if the regexp is invalid, or exceeds the work limit for the object's labels
    """
    return {**relabel(labels, regexp), **exact_labels(labels)}


def exact_labels(labels: Labels) -> dict[str, str]:
    """Return the exact labels of a delegate. Labels with a prefix of Flotilla have none, since they are reserved.

    If there are more than `EXACT_LIMIT`, only the first in alphabetical order are included.
    """
    users = [key for key in labels if not names.is_ours(key)]
    if len(users) > EXACT_LIMIT:
        users = sorted(users)[:EXACT_LIMIT]
    return {exact_key(key): labels[key] for key in users}


@lru_cache(maxsize=8192)
def exact_key(key: str) -> str:
    """Return the exact key of a label; the contract's key for one with Admiralty's prefix.

    The part before the slash is a DNS name, without underscore and capital letters. So the first underscore
    ends it, and it never begins with `U` or `H`.
    """
    prefix, _, name = key.rpartition("/")
    if prefix == names.GROUP:
        return key
    text = f"{prefix or 'U'}_{name}"
    if len(text) > names.SHORT_LIMIT:
        digest = hashlib.sha256(key.encode()).hexdigest()[:_HASH_LENGTH]
        text = f"H{digest}_{name}"[: names.SHORT_LIMIT].rstrip("-_.")
    return names.SHORT_PREFIX + text


_HASH_LENGTH = 20


def exact_selector(selector: Mapping[str, str], regexp: Regexp = None) -> dict[str, str]:
    """Return a Service's selector by exact labels. Keys that match the regexp stay: other pods may have them.

    :raises InvalidPattern: if the regexp is invalid, or exceeds the work limit for the selector
    """
    pattern = _pattern(regexp)
    return {_exact(key, (value,), pattern): value for key, value in selector.items()}


def constraints(spec: dict[str, Any], labels: Labels, regexp: Regexp, *, exact: bool = False) -> dict[str, Any]:
    """Return affinity and spread of a delegate, rewritten to select delegates.

    The result has only the fields that change.

    :param labels: of the pod itself, before rewriting
    :param exact: whether every delegate that they may select has exact labels
    :raises InvalidPattern: if the regexp is invalid, or exceeds the work limit for the object's labels
    """
    rewrite = _Rewriting(labels, _pattern(regexp), exact)
    result: dict[str, Any] = {}
    affinity = spec.get("affinity")
    if affinity:
        kinds = {kind: rewrite.pod_affinity(affinity[kind]) for kind in _POD_KINDS if affinity.get(kind)}
        if kinds:
            result["affinity"] = {**affinity, **kinds}
    spread = spec.get("topologySpreadConstraints")
    if spread:
        result["topologySpreadConstraints"] = [rewrite.term(item) for item in spread]
    return result


def selector(selector: dict[str, Any], regexp: Regexp, *, exact: bool = False) -> dict[str, Any]:
    """Return a LabelSelector as the target has it.

    By the contract a requirement keeps its key if the regexp matches any of its values; with exact keys, if it
    matches all of them. Without values, the regexp has to match `key=`.

    :param exact: whether every delegate that it may select has exact labels
    :raises InvalidPattern: if the regexp is invalid, or exceeds the work limit for the object's labels
    """
    return _Rewriting({}, _pattern(regexp), exact).selector(selector)


def _pattern(regexp: Regexp) -> LabelPattern:
    return regexp if isinstance(regexp, LabelPattern) else LabelPattern(regexp)


def _prefixed(key: str) -> str:
    return names.PREFIX + key.rpartition("/")[2]


_POD_KINDS = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _exact(key: str, values: Sequence[str], pattern: LabelPattern) -> str:
    return key if all(pattern.matches(key, value) for value in values) else exact_key(key)


class _Rewriting:
    """Rewriting of one object's selectors for a target."""

    def __init__(self, labels: Labels, pattern: LabelPattern, exact: bool) -> None:
        self._labels = labels
        self._pattern = pattern
        self._exact = exact

    def selector(self, selector: dict[str, Any]) -> dict[str, Any]:
        result = dict(selector)
        if found := selector.get("matchLabels"):
            result["matchLabels"] = (exact_selector if self._exact else relabel)(found, self._pattern)
        if selector.get("matchExpressions"):
            result["matchExpressions"] = [self._requirement(item) for item in selector["matchExpressions"]]
        return result

    def _requirement(self, item: dict[str, Any]) -> dict[str, Any]:
        key, values = item["key"], item.get("values") or ("",)
        if self._exact:
            return {**item, "key": _exact(key, values, self._pattern)}
        keeps = any(self._pattern.matches(key, value) for value in values)
        return item if keeps else {**item, "key": _prefixed(key)}

    def pod_affinity(self, affinity: dict[str, Any]) -> dict[str, Any]:
        result = dict(affinity)
        if affinity.get(_REQUIRED):
            result[_REQUIRED] = [self.term(term) for term in affinity[_REQUIRED]]
        if affinity.get(_PREFERRED):
            result[_PREFERRED] = [
                {**weighted, "podAffinityTerm": self.term(weighted["podAffinityTerm"])}
                for weighted in affinity[_PREFERRED]
            ]
        return result

    def term(self, term: dict[str, Any]) -> dict[str, Any]:
        """Rewrite a pod affinity term or spread constraint: both have a labelSelector and keys of the pod's labels."""
        result = dict(term)
        if term.get("labelSelector"):
            result["labelSelector"] = self.selector(term["labelSelector"])
        for field in ("matchLabelKeys", "mismatchLabelKeys"):
            if term.get(field):
                result[field] = list(dict.fromkeys(map(self._own_key, term[field])))
        return result

    def _own_key(self, key: str) -> str:
        value = self._labels.get(key, "")
        return _exact(key, (value,), self._pattern) if self._exact else new_key(key, value, self._pattern)
