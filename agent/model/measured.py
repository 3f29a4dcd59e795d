"""What the nodes of a cluster use, as metrics.k8s.io measures it: added up, told on its ClusterSummary, and read. Pure.

A node of which nothing is measured counts as used up: that it is idle is not known.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api.names.ocm import USED
from agent.model.quantity import InvalidQuantity, Quantity
from agent.model.requests import Amounts, amounts

RESOURCES = ("cpu", "memory")
STEP = 50
"""What is told moves when a sum does by at least one part in so many of what there is: by 2 %."""

_MILLI = 10**6
_MEBI = 10**9 * 1024**2
_encode = msgspec.json.Encoder(order="sorted").encode
_decoder = msgspec.json.Decoder(dict[str, str])


class _Metrics(msgspec.Struct):
    """A NodeMetrics."""

    class Metadata(msgspec.Struct):
        """Metadata of a NodeMetrics object."""

        name: str

    metadata: Metadata
    usage: dict[str, str] = {}


_metrics_decoder = msgspec.json.Decoder(_Metrics)


def add_up(nodes: Iterable[Mapping[str, Any]], metrics: Iterable[bytes]) -> dict[str, int]:
    """What these nodes use together, of those that take pods.

    :raises InvalidQuantity: if something measured is none
    :raises msgspec.DecodeError: if it is no NodeMetrics
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
    """Whether what is used now is to be told, in a cluster that has `whole`."""
    if told is None:
        return True
    return any(
        abs(now[resource] - told.get(resource, 0)) * STEP >= max(1, whole.get(resource, 0)) for resource in RESOURCES
    )


def write_used(used: Amounts) -> str:
    """The annotation that tells what is used, in full thousandths of cores and Mi."""
    told = {
        "cpu": Quantity(_full(used["cpu"], _MILLI)),
        "memory": Quantity(_full(used["memory"], _MEBI), "binary"),
    }
    return _encode({name: str(amount) for name, amount in told.items()}).decode()


def _full(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit


def read_used(annotations: Mapping[str, str]) -> Amounts | None:
    """What a summary with these annotations tells is used; None where it tells nothing, or nothing that can be read."""
    text = annotations.get(USED)
    if text is None:
        return None
    try:
        return amounts(_decoder.decode(text))
    except (msgspec.DecodeError, RecursionError, InvalidQuantity):
        return None
