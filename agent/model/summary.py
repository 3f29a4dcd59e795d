"""What a cluster tells of its nodes: sums, common labels, and shapes of nodes (wire contract, 8.3; ruling 11).

How much it tells is for its administrator to say:
- `full`: everything, also what is free on the nodes of each shape;
- `minimal`: what Admiralty tells, sums and the labels on which all nodes agree, and nothing about single nodes;
- `sums`: sums alone.
What the administrator says about the cluster as a whole (its properties) is told at every level.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES
from agent.model.free_capacity import UNTOUCHED, Taken, collapse, entries, few, left, resources, undominated
from agent.model.quantity import Quantity
from agent.model.requests import Amounts, amounts

SHAPES_LIMIT = 64 * 1024
"""Bytes of the node-shapes annotation; a cluster whose shapes alone take more tells its sums only."""

Detail = Literal["full", "minimal", "sums"]
DETAILS: tuple[Detail, ...] = get_args(Detail)

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Alike:
    """Nodes of one shape."""

    shape: dict[str, Any]
    names: tuple[str, ...]
    allocatable: Amounts


@dataclass(frozen=True, slots=True)
class Survey:
    """What a summary says of nodes, whatever runs on them."""

    labels: dict[str, str]
    capacity: dict[str, str]
    allocatable: dict[str, str]
    alike: tuple[Alike, ...] | None
    """None where the level of detail says nothing about single nodes."""


def survey(nodes: Iterable[dict[str, Any]], detail: Detail = "full") -> Survey:
    """What to say of these nodes; virtual nodes do not count.

    :raises InvalidQuantity: if a node's status has none; no API server lets that pass
    """
    real = [node for node in nodes if _labels(node).get(names.PROVIDER_KEY) != names.PROVIDER_VALUE]
    # How a sum is written depends on which amount comes first.
    real.sort(key=lambda node: node["metadata"]["name"])
    return Survey(
        labels=common_labels(real) if detail != "sums" else {},
        capacity=_total(node.get("status", {}).get("capacity") or {} for node in real),
        allocatable=_total(node.get("status", {}).get("allocatable") or {} for node in real),
        alike=tuple(_alike(real)) if detail == "full" else None,
    )


def summary(
    surveyed: Survey,
    *,
    version: str = "",
    cluster_uid: str = "",
    properties: Mapping[str, str] | None = None,
    taken: Mapping[str, Taken] | None = None,
    delegates: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """The ClusterSummary of a cluster with these nodes.

    :param version: of the agent that tells
    :param cluster_uid: UID of the cluster's kube-system namespace
    :param properties: of the cluster, valid as labels; where its nodes agree on a label of that name, theirs counts
    :param taken: what pods take, by node; None where that is not known, and so nothing is said of what is free
    :param delegates: how many pods among those are delegates, by the UID of the cluster that they are from
    """
    own = {key: value for key, value in sorted((properties or {}).items()) if key not in surveyed.labels}
    annotations = {}
    if surveyed.alike is not None and (shapes := node_shapes(surveyed.alike, taken)) is not None:
        annotations[names.ANNOTATION_NODE_SHAPES] = shapes
        if taken is not None:
            annotations[names.ANNOTATION_COUNTED] = _encode(dict(delegates or {}))
    if own:
        annotations[names.ANNOTATION_CLUSTER_PROPERTIES] = _encode(list(own))
    if version:
        annotations[names.ANNOTATION_AGENT_VERSION] = version
    if cluster_uid:
        annotations[names.ANNOTATION_CLUSTER_UID] = cluster_uid
    return {
        "apiVersion": CLUSTER_SUMMARIES.api_version,
        "kind": CLUSTER_SUMMARIES.name,
        "metadata": {"name": names.SUMMARY_NAME, "labels": {**surveyed.labels, **own}, "annotations": annotations},
        "capacity": surveyed.capacity,
        "allocatable": surveyed.allocatable,
    }


def summarise(
    nodes: Iterable[dict[str, Any]],
    *,
    detail: Detail = "full",
    version: str = "",
    properties: Mapping[str, str] | None = None,
    taken: Mapping[str, Taken] | None = None,
    delegates: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """`survey` and `summary` in one."""
    return summary(survey(nodes, detail), version=version, properties=properties, taken=taken, delegates=delegates)


def common_labels(nodes: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The labels on whose value all nodes that have them agree."""
    values: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in _labels(node).items():
            values.setdefault(key, set()).add(value)
    return {key: next(iter(found)) for key, found in sorted(values.items()) if len(found) == 1}


def node_shapes(alike: Sequence[Alike], taken: Mapping[str, Taken] | None = None) -> str | None:
    """Compact ASCII JSON of the different shapes of nodes, how many there are of each and what they have free.

    Where that would be too long, less is told: of each shape only the free nodes that decide whether one pod fits, then
    a few of those, then nothing of what is free; None where it would be too long even so.
    """
    shapes = [{**one.shape, "count": len(one.names)} for one in alike]
    for free in _free(alike, taken) if taken is not None else ():
        told = _encode([{**shape, "free": one} for shape, one in zip(shapes, free, strict=True)])
        if len(told) <= SHAPES_LIMIT:
            return told
    told = _encode(shapes)
    return told if len(told) <= SHAPES_LIMIT else None


def _free(alike: Sequence[Alike], taken: Mapping[str, Taken]) -> Iterator[list[list[dict[str, Any]]]]:
    """What is free on the nodes of each shape, each time in fewer words."""
    orders = [resources(one.allocatable) for one in alike]
    counts = [
        collapse(left(order, one.allocatable, taken.get(name, UNTOUCHED)) for name in one.names)
        for order, one in zip(orders, alike, strict=True)
    ]
    chosen = [list(found) for found in counts]
    for choice in (list, undominated, few):
        chosen = [choice(found) for found in chosen]
        yield [entries(order, found, some) for order, found, some in zip(orders, counts, chosen, strict=True)]


def _alike(nodes: Sequence[dict[str, Any]]) -> list[Alike]:
    """Nodes by their shape, the commonest first.

    A shape has only the labels that do not say the same of every node, without the host name, and the taints without
    their times.
    """
    everywhere = (
        set(_labels(nodes[0]).items()).intersection(*(_labels(node).items() for node in nodes)) if nodes else set()
    )
    by_shape: dict[str, list[str]] = {}
    for node in nodes:
        by_shape.setdefault(_encode(_shape(node, everywhere)), []).append(node["metadata"]["name"])
    shapes = [
        Alike(shape := msgspec.json.decode(text), tuple(found), amounts(shape["allocatable"]))
        for text, found in by_shape.items()
    ]
    return sorted(shapes, key=lambda one: (-len(one.names), _encode(one.shape)))


def steady(told: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Mapping[str, Any]:
    """The amounts to tell of a node: what was told last, unless a resource came, went, or moved by 1 % or more.

    What kubelets call allocatable trembles on some clouds, and every write wakes all sources.
    """
    if told is None or told.keys() != now.keys():
        return now
    for resource, amount in now.items():
        old, new = Quantity.of(told[resource]).nano, Quantity.of(amount).nano
        if abs(new - old) * 100 >= max(old, new) > 0:
            return now
    return told


def _shape(node: dict[str, Any], everywhere: set[tuple[str, str]]) -> dict[str, Any]:
    spec = node.get("spec") or {}
    taints = [
        {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)} for taint in spec.get("taints") or ()
    ]
    return {
        "labels": {
            key: value for key, value in _labels(node).items() if key != HOSTNAME and (key, value) not in everywhere
        },
        "taints": sorted(taints, key=lambda taint: (taint.get("key", ""), taint.get("effect", ""))),
        "unschedulable": bool(spec.get("unschedulable")),
        "allocatable": dict(node.get("status", {}).get("allocatable") or {}),
    }


def _labels(node: dict[str, Any]) -> dict[str, str]:
    return node.get("metadata", {}).get("labels") or {}


def _total(amounts: Iterable[dict[str, str]]) -> dict[str, str]:
    totals: dict[str, Quantity] = {}
    for amount in amounts:
        for resource, value in amount.items():
            quantity = Quantity.of(value)
            totals[resource] = totals[resource] + quantity if resource in totals else quantity
    return {resource: str(total) for resource, total in sorted(totals.items())}


def _encode(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()
