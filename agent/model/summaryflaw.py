"""Validation of a ClusterSummary: finds its first unusable field. Pure.

API servers with Flotilla's CRD reject most invalid summaries, but a target may have another CRD.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.model.nodeshapes import COUNTED, NODE_SHAPES, SHAPES_LIMIT
from agent.model.quantity import InvalidQuantity, Quantity
from agent.model.source import Flaw

_ONE = 10**9
_RESOURCES_LIMIT = 1000
"""Maximum number of resources in one set of amounts."""
_NAME_SHOWN = 80
_PROPERTIES = msgspec.json.Decoder(set[str])
_DECODERS: tuple[tuple[str, msgspec.json.Decoder[Any]], ...] = (
    (names.ANNOTATION_NODE_SHAPES, NODE_SHAPES),
    (names.ANNOTATION_COUNTED, COUNTED),
    (names.ANNOTATION_CLUSTER_PROPERTIES, _PROPERTIES),
)


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


def summary_flaw(summary: Mapping[str, Any]) -> Flaw | None:
    """Return the first flaw of a ClusterSummary, None if it has none."""
    for field in ("capacity", "allocatable"):
        if found := amounts_flaw(field, summary.get(field), of_nodes=True):
            return found
    try:
        metadata = msgspec.convert(summary.get("metadata") or {}, _Metadata)
    except msgspec.ValidationError as error:
        return Flaw("metadata", str(error))
    annotations = metadata.annotations or {}
    for key, decoder in _DECODERS:
        field, text = f"metadata.annotations[{key}]", annotations.get(key)
        if text is None:
            continue
        if len(text) > SHAPES_LIMIT:
            return Flaw(field, f"has {len(text)} characters, and {SHAPES_LIMIT} are allowed")
        try:
            value = decoder.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            return Flaw(field, f"cannot be read: {error}")
        if decoder is NODE_SHAPES and (found := _shapes_flaw(field, value)):
            return found
    return None


def _shapes_flaw(field: str, shapes: Any) -> Flaw | None:
    for index, shape in enumerate(shapes):
        where = f"{field}[{index}]"
        told = [(f"{where}.allocatable", shape.allocatable)]
        told += [(f"{where}.free[{number}].amounts", free.amounts) for number, free in enumerate(shape.free or ())]
        for place, amounts in told:
            if found := amounts_flaw(place, amounts):
                return found
    return None


def amounts_flaw(field: str, amounts: Any, *, of_nodes: bool = False) -> Flaw | None:
    """Return the first flaw of amounts by resource, None if there is none; missing amounts have none.

    :param of_nodes: whether API servers must accept them in the status of a node
    """
    if not isinstance(amounts or {}, dict):
        return Flaw(field, "is not an object of amounts by resource")
    if len(amounts or ()) > _RESOURCES_LIMIT:
        return Flaw(field, f"names {len(amounts)} resources, and {_RESOURCES_LIMIT} are allowed")
    for name, amount in (amounts or {}).items():
        if reason := _amount_flaw(name, amount, of_nodes):
            return Flaw(f"{field}[{name[:_NAME_SHOWN]}]", reason)
    return None


def _amount_flaw(name: str, amount: Any, of_nodes: bool) -> str:
    try:
        nano = Quantity.of(amount).nano
    except InvalidQuantity as error:
        return str(error)
    if of_nodes and nano < 0:
        return f"must be 0 or more, not {amount}"
    if of_nodes and nano % _ONE and (name == "pods" or ("/" in name and "kubernetes.io/" not in name)):
        return f"must be a whole number, not {amount}"
    return ""
