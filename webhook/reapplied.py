"""Repeated application of a proxy pod's manifest by its user. Pure.

The webhook has changed immutable fields of the pod, so that a second apply of the same manifest requests
changes that API servers reject. The request has the manifest's fields merged into the proxy pod's, or in place
of them. A field that only repeats the manifest is reset to the proxy pod's value. Other changes are left to the
API server, which accepts or rejects them as for any pod.
"""

from collections.abc import Callable, Mapping
from typing import Any

from agent.model import manifest
from agent.model.diff import equivalent
from agent.model.manifest import source_pod
from agent.model.proxypod import given_tolerations

Raw = dict[str, Any]

_MOST = 100
"""Maximum number of compared tolerations or constraints; a pod with more is left to the API server."""


def restored(old: Mapping[str, Any], new: Raw) -> Raw:
    """Return the changed proxy pod `new`, with the fields of `old` that its user only repeats; else `new` itself.

    :raises InvalidPod: if the manifest of the proxy pod cannot be read
    """
    live, incoming = old["spec"], new["spec"]
    changed = [field for field in manifest.TAKEN if not equivalent(live.get(field), incoming.get(field))]
    if not changed:
        return new
    source = source_pod(old)
    back = {}
    for field in changed:
        values = live.get(field), incoming.get(field), source["spec"].get(field)
        given = given_tolerations(source) if field == "tolerations" else []
        if any(isinstance(each, list) and len(each) > _MOST for each in (*values, given)):
            continue
        if field == "tolerations":
            back[field] = _tolerations(*values, given)
        elif _REPEATS.get(field, _is_same)(*values):
            back[field] = live.get(field)
    spec = {field: value for field, value in {**incoming, **back}.items() if value is not None}
    return {**new, "spec": spec} if back else new


def _is_same(live: Any, incoming: Any, source: Any) -> bool:
    return equivalent(incoming, source)


def _is_merged(live: Any, incoming: Any, source: Any) -> bool:
    return equivalent(incoming or {}, source or {}) or equivalent(incoming or {}, _merged(live or {}, source or {}))


def _merged(live: Raw, source: Raw) -> Raw:
    """Merge objects like API servers; lists inside are replaced."""
    merged = dict(live)
    for key, value in source.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _is_spread(live: Any, incoming: Any, source: Any) -> bool:
    """Return whether constraints are only repeated: API servers merge them by topology key, in any order."""
    live, incoming, source = live or [], incoming or [], source or []
    known = [*live, *source, *({**one, **other} for one in live for other in source if _same_key(one, other))]
    repeated = all(any(each.items() <= other.items() for other in incoming) for each in source)
    return repeated and all(each in known for each in incoming)


def _same_key(one: Raw, other: Raw) -> bool:
    return bool(one.get("topologyKey") == other.get("topologyKey"))


_REPEATS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "nodeSelector": _is_merged,
    "affinity": _is_merged,
    "topologySpreadConstraints": _is_spread,
}


def _tolerations(live: Any, incoming: Any, source: Any, given: list[Raw]) -> list[Raw] | None:
    """Return the tolerations that the pod would have if it had been created with this manifest. Tolerations may
    be added, but not removed.

    :param given: tolerations that the webhook added to the proxy pod
    """
    live, incoming, source = live or [], incoming or [], source or []
    if all(each in incoming for each in live) or not all(each in incoming for each in source):
        return incoming or None
    kept = [each for each in live if each in given or each in incoming]
    return [*kept, *(each for each in incoming if each not in source and each not in kept)]
