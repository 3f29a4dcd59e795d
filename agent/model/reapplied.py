"""A proxy pod whose user applies its manifest again. Pure.

The webhook has changed fields of the pod that nobody can change later, so that a second apply of the same manifest asks
for what API servers refuse. What comes in is the proxy pod with the fields of the manifest merged into its own, or in
their place. A field that says no more than that gets the proxy's own value back; whatever else changes is left to the
API server, which takes it or refuses it as that of any pod.
"""

from collections.abc import Callable, Mapping
from typing import Any

from agent.model import manifest
from agent.model.diff import equivalent
from agent.model.manifest import source_pod
from agent.model.proxypod import given_tolerations

Raw = dict[str, Any]

_MOST = 100
"""Tolerations, or constraints, which are compared each with each: a pod with more of them is left to the API server."""


def restored(old: Mapping[str, Any], new: Raw) -> Raw:
    """The changed proxy pod `new`, with the fields of `old` that its user only repeats; itself where there is none.

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
    """As API servers merge objects; lists inside are replaced."""
    merged = dict(live)
    for key, value in source.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _is_spread(live: Any, incoming: Any, source: Any) -> bool:
    """Constraints are merged by their topology key, in whatever order."""
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
    """Those that the pod would have, had its manifest said so at first; more may come, and none may go.

    :param given: those that the webhook gave the proxy pod
    """
    live, incoming, source = live or [], incoming or [], source or []
    if all(each in incoming for each in live) or not all(each in incoming for each in source):
        return incoming or None
    kept = [each for each in live if each in given or each in incoming]
    return [*kept, *(each for each in incoming if each not in source and each not in kept)]
