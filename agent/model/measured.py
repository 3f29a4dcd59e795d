"""Measured usage of a cluster's nodes (metrics.k8s.io): summed, published in its ClusterSummary, and read. Pure.

A node without metrics counts as fully used, since it is not known to be idle.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api.names.ocm import USED
from agent.model.quantity import InvalidQuantity, Quantity
from agent.model.requests import Amounts, amounts

RESOURCES = ("cpu", "memory")
STEP = 50
"""Inverse of the smallest published change: 1/50 of the cluster's resources, which is 2 %."""

_MILLI = 10**6
_MEBI = 10**9 * 1024**2
_encode = msgspec.json.Encoder(order="sorted").encode
_decoder = msgspec.json.Decoder(dict[str, str])


class _Metrics(msgspec.Struct):
    """A NodeMetrics object."""

    class Metadata(msgspec.Struct):
        """Metadata of a NodeMetrics object."""

        name: str

    metadata: Metadata
    usage: dict[str, str] = {}


_metrics_decoder = msgspec.json.Decoder(_Metrics)


def add_up(nodes: Iterable[Mapping[str, Any]], metrics: Iterable[bytes]) -> dict[str, int]:
    """Return the total usage of these nodes, without cordoned ones.

    :raises InvalidQuantity: if a measured amount is invalid
    :raises msgspec.DecodeError: if an item is not a NodeMetrics object
    """
    measured = {found.metadata.name: found.usage for found in map(_metrics_decoder.decode, metrics)}
    total = dict.fromkeys(RESOURCES, 0)
    for node in nodes:
        if (node.get("spec") or {}).get("unschedulable"):
            continue
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        used = {**allocatable, **measured.get(node["metadata"]["name"], {})}
        for resource in RESOURCES:
            total[resource] += Quantity.of(used.get(resource, "0")).nano
    return total


def moved(told: Amounts | None, now: Amounts, whole: Amounts) -> bool:
    """Return whether the usage has changed enough to be published, in a cluster with resources `whole`."""
    if told is None:
        return True
    return any(
        abs(now[resource] - told.get(resource, 0)) * STEP >= max(1, whole.get(resource, 0)) for resource in RESOURCES
    )


def write_used(used: Amounts) -> str:
    """Return the annotation with the usage, rounded up to millicores and Mi."""
    told = {
        "cpu": Quantity(_full(used["cpu"], _MILLI)),
        "memory": Quantity(_full(used["memory"], _MEBI), "binary"),
    }
    return _encode({name: str(amount) for name, amount in told.items()}).decode()


def _full(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


def read_used(annotations: Mapping[str, str]) -> Amounts | None:
    """Return the usage in a summary's annotations; None if it is missing or cannot be parsed."""
    text = annotations.get(USED)
    if text is None:
        return None
    try:
        return amounts(_decoder.decode(text))
    except (msgspec.DecodeError, RecursionError, InvalidQuantity):
        return None
