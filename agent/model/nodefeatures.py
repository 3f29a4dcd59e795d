"""Features that nodes declare (`status.declaredFeatures`, KEP-5328), from the nodes of a target to its virtual node.

API servers refuse changes of pods that need a feature which the pod's node does not declare. A virtual node declares
what every node of its target declares. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api.names.nodes import ANNOTATION_DECLARED_FEATURES

FIELD = "declaredFeatures"
_LIMIT = 100
"""Maximum number of features from a summary."""
_NAME_LIMIT = 63
_decoder = msgspec.json.Decoder(list[str])


def declared_by(node: Mapping[str, Any]) -> frozenset[str]:
    """Return the features that a node declares."""
    return frozenset((node.get("status") or {}).get(FIELD) or ())


def common(declared: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """Return the features that all nodes declare, sorted; empty without nodes."""
    found = list(declared)
    return tuple(sorted(frozenset.intersection(*found))) if found else ()


def write(features: Iterable[str]) -> dict[str, str]:
    """Return the annotation of a ClusterSummary; {} for no features."""
    text = msgspec.json.encode(list(features)).decode()
    return {ANNOTATION_DECLARED_FEATURES: text} if text != "[]" else {}


def read(annotations: Mapping[str, str] | None) -> list[str]:
    """Return the features of a ClusterSummary's annotation, as a node's status has them; empty if it cannot be read."""
    try:
        found = _decoder.decode((annotations or {}).get(ANNOTATION_DECLARED_FEATURES) or "[]")
    except (msgspec.DecodeError, RecursionError):
        return []
    return sorted({each for each in found[:_LIMIT] if each.isascii() and each.isalnum() and len(each) <= _NAME_LIMIT})
