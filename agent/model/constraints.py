"""The scheduling constraints of pods: those that users write for proxy pods, read strictly (wire contract, 2.1), and
those of a manifest, where Kubernetes may know more fields than we do.

The structs say only which fields there are and of which type: what the values may be, the API server checks itself when
it gets the pod. The raw dict is what travels.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.model import json_or_yaml
from agent.model.errors import InvalidPod

FIELDS = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
"""What of a pod spec counts as a constraint."""


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
    """The constraints written in an annotation, as a raw fragment of a pod spec.

    Only the four fields above are taken. Admiralty reads, and ignores, other fields of a pod spec; here they are
    refused like misspelt ones: what is written has an effect or an error.

    :raises InvalidPod: naming the annotation `field`
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
    """The constraints of a pod spec that no API server has checked; fields that we do not know stay.

    :raises msgspec.ValidationError: if one is not of its type
    :raises RecursionError: if it is nested too deeply
    """
    found = {name: spec[name] for name in FIELDS if spec.get(name) is not None}
    try:
        msgspec.convert(found, _Constraints)
    except msgspec.ValidationError:
        # Seldom: API servers write no nulls here.
        found = {name: _without_nulls(value) for name, value in found.items()}
        msgspec.convert(found, _Constraints)
    return found


def _unknown(given: Any, taken: Any, path: str = "$") -> str | None:
    """The path of the first field that is given and was not taken, None if all were."""
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
    """As Go reads them, fields that are null are not there."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
