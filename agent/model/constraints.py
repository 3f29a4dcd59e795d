"""Scheduling constraints of pods.

`parse` reads constraints that users write for proxy pods strictly (wire contract, 2.1). `of` reads constraints of a
manifest and keeps unknown fields, since the API server may be newer than this agent. The structs check only names and
types of fields; the API server checks the values. The raw dict is copied to the delegate.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.model import json_or_yaml
from agent.model.errors import InvalidPod

FIELDS = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""Fields of a pod spec that are constraints."""


class _Known(msgspec.Struct, rename="camel", gc=False):
    pass


class _Requirement(_Known):
    key: str
    operator: str
    values: list[str] = []


class _LabelSelector(_Known):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Requirement] = []


class _NodeSelectorTerm(_Known):
    match_expressions: list[_Requirement] = []
    match_fields: list[_Requirement] = []


class _NodeSelector(_Known):
    node_selector_terms: list[_NodeSelectorTerm]


class _PreferredTerm(_Known):
    weight: int
    preference: _NodeSelectorTerm


class _NodeAffinity(_Known):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[_PreferredTerm] = []


class _PodTerm(_Known):
    topology_key: str
    label_selector: _LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: _LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class _WeightedPodTerm(_Known):
    weight: int
    pod_affinity_term: _PodTerm


class _PodAffinity(_Known):
    required_during_scheduling_ignored_during_execution: list[_PodTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[_WeightedPodTerm] = []


class _Affinity(_Known):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Toleration(_Known):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class _Spread(_Known):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: _LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = []


class _Constraints(_Known):
    node_selector: dict[str, str] = {}
    tolerations: list[_Toleration] = []
    affinity: _Affinity | None = None
    topology_spread_constraints: list[_Spread] = []


def parse(field: str, text: str) -> dict[str, Any]:
    """Parse the constraints in an annotation into a raw fragment of a pod spec.

    Fields other than FIELDS are refused, so that no text of the user is ignored. Admiralty ignores them.

    :param field: name of the annotation, for the error
    :raises InvalidPod: if the text is invalid
    """
    try:
        fragment = _without_nulls(json_or_yaml.read(text))
        if fragment is None:
            return {}
        unknown = _unknown(fragment, msgspec.to_builtins(msgspec.convert(fragment, _Constraints)))
        if unknown is not None:
            raise msgspec.ValidationError(f"there is no field `{unknown}`")
    except RecursionError as error:
        raise InvalidPod(field, "is nested too deeply") from error
    except (json_or_yaml.InvalidDocument, msgspec.ValidationError) as error:
        raise InvalidPod(
            field, f"must be a YAML or JSON fragment of a pod spec with only {', '.join(FIELDS)}: {error}"
        ) from error
    return {name: fragment[name] for name in FIELDS if fragment.get(name)}


def of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constraints of a pod spec that no API server has checked; unknown fields are kept.

    :raises msgspec.ValidationError: if one is not of its type
    :raises RecursionError: if it is nested too deeply
    """
    found = {name: spec[name] for name in FIELDS if spec.get(name) is not None}
    try:
        msgspec.convert(found, _Constraints)
    except msgspec.ValidationError:
        # Rare: API servers write no nulls in these fields.
        found = {name: _without_nulls(value) for name, value in found.items()}
        msgspec.convert(found, _Constraints)
    return found


def _unknown(given: Any, taken: Any, path: str = "$") -> str | None:
    """Return the path of the first given field that decoding dropped; None if it kept all."""
    if taken is None:
        return path
    if isinstance(given, dict):
        parts = [(f"{path}.{key}", item, taken.get(key)) for key, item in given.items()]
    elif isinstance(given, list):
        parts = [(f"{path}[{number}]", item, taken[number]) for number, item in enumerate(given)]
    else:
        return None
    found = (_unknown(item, also, where) for where, item, also in parts)
    return next((each for each in found if each is not None), None)


def _without_nulls(value: Any) -> Any:
    """Drop fields that are null, as Go's JSON decoder does."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
